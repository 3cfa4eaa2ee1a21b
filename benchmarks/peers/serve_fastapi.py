"""FastAPI on uvicorn with a hand-written call of onnxruntime: one worker, ready inputs.

    python serve_fastapi.py NETWORK PORT

POST /pydantic: {"embedding": [[[…]]], "dense": [[…]]} checked by a pydantic model. POST /orjson: the same body, read
and written by orjson by hand. POST /binary: the floats of both, one behind the other, as bytes; answered in bytes.
"""

import sys

import numpy as np
import onnxruntime
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

SLOTS, DIM, DENSE = 26, 16, 13
WIDTH = SLOTS * DIM

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
app = FastAPI()


class Inputs(BaseModel):
    embedding: list[list[list[float]]]
    dense: list[list[float]]


class Outputs(BaseModel):
    probability: list[float]


def run(embedding: np.ndarray, dense: np.ndarray) -> np.ndarray:
    return session.run(["probability"], {"embedding": embedding, "dense": dense})[0][:, 0]


@app.post("/pydantic")
def pydantic(inputs: Inputs) -> Outputs:
    found = run(np.asarray(inputs.embedding, np.float32), np.asarray(inputs.dense, np.float32))
    return Outputs(probability=found.tolist())


@app.post("/orjson")
async def by_orjson(request: Request) -> Response:
    given = orjson.loads(await request.body())
    found = run(np.array(given["embedding"], np.float32), np.array(given["dense"], np.float32))
    return Response(orjson.dumps({"probability": found.tolist()}), media_type="application/json")


@app.post("/binary")
async def binary(request: Request) -> Response:
    given = np.frombuffer(await request.body(), np.float32)
    rows = len(given) // (WIDTH + DENSE)
    embedding = given[: rows * WIDTH].reshape(rows, SLOTS, DIM)
    found = run(embedding, given[rows * WIDTH :].reshape(rows, DENSE))
    return Response(found.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
