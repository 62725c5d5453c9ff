"""Whether a contract can pass and convict, and how soon: before anything is released. Pure."""
