"""LitServe with the same call of onnxruntime: one worker, ready inputs.

    python serve_litserve.py NETWORK PORT

POST /predict: {"embedding": [[[…]]], "dense": [[…]]}.
"""

import sys

import litserve
import numpy as np
import onnxruntime


class Api(litserve.LitAPI):
    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])

    def decode_request(self, request):
        return {name: np.asarray(request[name], np.float32) for name in ("embedding", "dense")}

    def predict(self, feeds):
        return self.session.run(["probability"], feeds)[0][:, 0]

    def encode_response(self, output):
        return {"probability": output.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Api(), accelerator="cpu", workers_per_device=1, timeout=30)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), log_level="error", generate_client_file=False)
