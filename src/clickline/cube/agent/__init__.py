"""The agent beside a cube server: downloads versions and has the server load and switch them."""
