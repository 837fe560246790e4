"""The recipes in which the zones meet, one file per method."""
