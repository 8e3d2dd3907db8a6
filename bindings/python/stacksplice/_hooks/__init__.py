"""What install(), attach() and deadline() switch on."""
