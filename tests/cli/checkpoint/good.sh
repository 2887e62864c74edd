cp -r "$FIXTURES/checkpoint" . && quench checkpoint inspect checkpoint && quench checkpoint verify checkpoint
