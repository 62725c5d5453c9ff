"""What people are told: notices worked out from status, their forms for each kind of sink, and what was sent. Pure."""
