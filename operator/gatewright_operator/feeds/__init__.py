"""Where the evidence of one check at one gate comes from: one module for each way to get it."""
