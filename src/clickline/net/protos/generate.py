"""open_inference_pb2.py and .pyi, made from open_inference.proto: python -m clickline.net.protos.generate

Two things in it are changed. The messages are put into a pool of their own: protobuf's common one refuses two files
that define the same names, and every other implementation of the protocol defines these, so `import tritonclient.grpc`
beside it would fail. And the check is taken out that refuses any protobuf older than the generator's: what is generated
is a descriptor, which older ones read as well, and programs beside us may need an older one.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
PROTO = "open_inference.proto"
_CHANGES = {
    r"_descriptor_pool\.Default\(\)": "_descriptor_pool.DescriptorPool()",
    r"from google\.protobuf import runtime_version as _runtime_version\n": "",
    r"_runtime_version\.ValidateProtobufRuntimeVersion\([^)]*\)\n": "",
}


def generate(directory: Path) -> list[Path]:
    """Write the two files into `directory`; gives back their paths."""
    from grpc_tools import protoc

    included = f"-I{files('grpc_tools') / '_proto'}"
    arguments = ["protoc", f"-I{HERE}", included, f"--python_out={directory}", f"--pyi_out={directory}", PROTO]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc refused {HERE / PROTO}; what it said is above")
    module = directory / "open_inference_pb2.py"
    text = module.read_text(encoding="utf-8")
    for pattern, changed in _CHANGES.items():
        text, count = re.subn(pattern, changed, text)
        if count != 1:
            raise RuntimeError(
                f"{module} has {pattern} {count} times, not once; generated code has changed: adapt this"
            )
    module.write_text(text, encoding="utf-8")
    return [module, module.with_suffix(".pyi")]


if __name__ == "__main__":
    for path in generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE):
        print(path)
