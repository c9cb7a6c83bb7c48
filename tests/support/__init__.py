"""Tools that tests are built from: scripted and simulated servers, raw clients, the gateway as a process."""
