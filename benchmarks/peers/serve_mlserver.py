"""MLServer with the same call of onnxruntime in a runtime of its own, in the server's process: ready inputs.

    python serve_mlserver.py NETWORK PORT

POST /v2/models/ctr/infer, Open Inference Protocol, JSON.
"""

import asyncio
import sys

import numpy as np
import onnxruntime
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Network(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feeds = {one.name: NumpyCodec.decode_input(one).astype(np.float32) for one in payload.inputs}
        found = self.session.run(["probability"], feeds)[0]
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name="probability", payload=found)]
        )


async def main() -> None:
    settings = Settings(
        host="127.0.0.1",
        http_port=int(sys.argv[2]),
        grpc_port=int(sys.argv[2]) + 1,
        metrics_endpoint=None,
        parallel_workers=0,
        use_structured_logging=False,
        debug=False,
    )
    server = MLServer(settings)
    await server.start([ModelSettings(name="ctr", implementation=Network)])


if __name__ == "__main__":
    asyncio.run(main())
