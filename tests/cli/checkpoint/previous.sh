mkdir -p run && cp -r "$FIXTURES/checkpoint" run/prev && quench checkpoint verify run
