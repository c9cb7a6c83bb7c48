"""A real llama.cpp server for tests, demo and benchmarks: small generated models, a launcher, and the agent that talks to it.

Nothing here is needed to run the gateway, and the gateway imports none of it. What needs the extra `demo` (the server wheel and
the GGUF writer) imports it late, so that the rest can say in one sentence what is missing.
"""
