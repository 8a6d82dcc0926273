"""What is published: results under version control, their scoreboard, and the page of findings."""
