"""The scoreboard: verdicts counted (`board`), and as a page of the report (`page`)."""
