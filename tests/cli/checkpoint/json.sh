cp -r "$FIXTURES/checkpoint" . && quench checkpoint inspect --json checkpoint
