"""The HTTP/1.1 server of a worker. It knows predictions only through `clickline.serve.prediction`.

The path of a request from the socket to its keys, all of it in the thread of the event loop:

    1  connection.Connection              the transport hands it bytes
    2  request_parser.RequestParser       bytes become a Request; limits are checked before anything is kept
    3  request_exchange.RequestExchange   the Request, later its Response, and what is known of both
    4  request_handler.RequestHandler     finds the route, chooses the version, has the body read
    5  routes.Router                      path -> RouteMatch
    6  protocols.json_rows.JsonRows       or another PredictionProtocol: opens the body and has it read
    7  predictor.predictor.Predictor      chooses the version
    8  predictor.feature_reader           body -> keys, in native code

Then `Predictor.submit` queues it. The result comes back through `RequestExchange.done`: from the same thread directly,
from a thread that computes by way of the CompletionQueue, which wakes the loop. `RequestHandler.resolve` makes the
Response, and `Connection.answered` writes it once all earlier responses of that connection are written.

Not on this path: acceptor.Acceptor, which accepts connections; connection_table.ConnectionTable, which admits them and
enforces their deadlines; grpc_relay.GrpcRelay, which is handed connections that speak HTTP/2, with their first bytes.
"""
