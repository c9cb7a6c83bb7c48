"""llama-server as the xllamacpp wheel carries it: llama.cpp's own HTTP server, in this process.

    python -m gateway.engine.launcher -m tiny.gguf --port 0 -c 16384 -np 2 --metrics

Takes a part of llama-server's flags under their own names, prints `listening on URL` (with port 0: the port that it got) and
runs until SIGTERM or SIGINT. The log goes to standard error.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.engine.extra import require
from gateway.errors import WarmgateError

LISTENING = "listening on "

_STOP = (signal.SIGTERM, signal.SIGINT)

# Spellings of llama-server -> field of the wheel's CommonParams. A flag that is not given keeps llama.cpp's own default.
_NUMBERS: dict[tuple[str, ...], tuple[str, type]] = {
    ("--port",): ("port", int),
    ("-c", "--ctx-size"): ("n_ctx", int),
    ("-np", "--parallel"): ("n_parallel", int),
    ("-b", "--batch-size"): ("n_batch", int),
    ("-ub", "--ubatch-size"): ("n_ubatch", int),
    ("-cram", "--cache-ram"): ("cache_ram_mib", int),
    ("--cache-reuse",): ("n_cache_reuse", int),
    ("-sps", "--slot-prompt-similarity"): ("slot_prompt_similarity", float),
    ("--sleep-idle-seconds",): ("sleep_idle_seconds", int),
    ("-ctxcp", "--ctx-checkpoints"): ("n_ctx_checkpoints", int),
    ("--sse-ping-interval",): ("sse_ping_interval", int),
    ("-lv", "--verbosity"): ("verbosity", int),
}
_SWITCHES: dict[tuple[str, ...], str] = {
    ("-kvu", "--kv-unified"): "kv_unified",
    ("--cache-idle-slots",): "cache_idle_slots",
    ("--swa-full",): "swa_full",
    ("--metrics",): "endpoint_metrics",
    ("--props",): "endpoint_props",
    ("--slots",): "endpoint_slots",
    ("--embeddings",): "embedding",
}
_TEXTS: dict[tuple[str, ...], str] = {
    ("--models-dir",): "models_dir",
    ("--chat-template",): "chat_template",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop. Returns the exit status: 1, with one line on standard error, when it cannot start."""
    args = _parser().parse_args(argv)
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # before any thread of the server exists, so that all inherit it
    try:
        server = _start(args)
    except WarmgateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{LISTENING}{server.listening_address}", flush=True)
    signal.sigwait(_STOP)
    del server  # stops the server and waits for its threads
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway.engine.launcher",
        description=(__doc__ or "").partition("\n")[0],
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-m", "--model", default="", help="GGUF file; not needed with --models-dir")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("-a", "--alias", help="name of the model in replies and lists")
    parser.add_argument("--api-key", action="append")
    parser.add_argument("--slot-save-path", help="directory for the files of POST /slots/N?action=save")
    parser.add_argument("--pooling", choices=["none", "mean", "cls", "last"], help="how embeddings are made of tokens")
    for names, (field, kind) in _NUMBERS.items():
        parser.add_argument(*names, dest=field, type=kind, metavar="N")
    for names, field in _SWITCHES.items():
        parser.add_argument(*names, dest=field, action=argparse.BooleanOptionalAction)
    for names, field in _TEXTS.items():
        parser.add_argument(*names, dest=field, metavar="TEXT")
    return parser


def _start(args: argparse.Namespace) -> Any:
    """The running server. Raises WarmgateError with one sentence."""
    require("xllamacpp")
    import xllamacpp

    if "models_dir" not in args and not Path(args.model).is_file():
        raise WarmgateError(f"no such model file: {args.model!r}; give one with -m FILE.gguf")
    params = xllamacpp.CommonParams()
    params.n_ctx, params.n_parallel = 0, -1  # llama-server's defaults: the model's own context, slots chosen by the server
    params.endpoint_slots = True
    _apply(args, params)
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise WarmgateError(f"the server did not start, its log above says why ({error})") from None


def _apply(args: argparse.Namespace, params: Any) -> None:
    given = vars(args)
    direct = [field for field, _ in _NUMBERS.values()] + list(_SWITCHES.values()) + list(_TEXTS.values())
    for field in direct:
        if field in given:
            setattr(params, field, given[field])
    params.model.path, params.hostnames = args.model, [args.host]
    if "threads" in given:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    if "alias" in given:
        params.model_alias = {args.alias}
    if "pooling" in given:
        import xllamacpp

        params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{args.pooling.upper()}")
    if "api_key" in given:
        params.api_keys = args.api_key
    if "slot_save_path" in given:
        params.slot_save_path = args.slot_save_path.rstrip("/") + "/"  # llama.cpp only appends the file's name


if __name__ == "__main__":
    raise SystemExit(main())
