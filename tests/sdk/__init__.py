"""The vendors' own client libraries, directly at a server and through the gateway."""
