"""open_inference_pb2.py and .pyi, made from open_inference.proto: python -m clickline.serve.protos.generating

The messages are put into a pool of their own. protobuf's common one refuses two files that define the same names, and
every other implementation of the protocol defines these: `import tritonclient.grpc` beside it would fail. Generate with
the oldest grpcio-tools that is supported: generated code refuses an older protobuf than its own.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
PROTO = "open_inference.proto"
_COMMON, _OWN = "_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()"


def generate(directory: Path) -> list[Path]:
    """Write the two files into `directory`; gives back their paths."""
    from grpc_tools import protoc

    included = f"-I{files('grpc_tools') / '_proto'}"
    arguments = ["protoc", f"-I{HERE}", included, f"--python_out={directory}", f"--pyi_out={directory}", PROTO]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc refused {HERE / PROTO}; what it said is above")
    module = directory / "open_inference_pb2.py"
    text = module.read_text(encoding="utf-8")
    if text.count(_COMMON) != 1:
        raise RuntimeError(f"{module} does not say {_COMMON} once; generated code has changed, adapt generating.py")
    module.write_text(text.replace(_COMMON, _OWN), encoding="utf-8")
    return [module, module.with_suffix(".pyi")]


if __name__ == "__main__":
    for path in generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE):
        print(path)
