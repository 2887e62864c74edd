quench codec --type q8_0 --cols 32 encode nowhere.f32 x.q8_0
