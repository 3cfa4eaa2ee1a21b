// What the server does with a request: once if it asks for that, and its answer into the connection's buffer.
#include <new>

#include "wire_connection.h"

namespace clickline {

// Puts into connection.reply what is to be sent.
void WireServer::answer(Connection &connection, const FrameHeader &header, std::string_view request) {
  const std::function<void()> still_wanted = [&] {
    watch_.check();
    if (connection.channel.gone()) throw ConnectionLost("the client is gone");
    once.check(connection.peer.client);
  };
  const Kind kind = header.kind;
  if (kind != Kind::Call && kind != Kind::Pull && kind != Kind::Push && !(kind == Kind::Get && getter_))
    throw Garbled("frame of kind " + std::to_string(static_cast<int>(kind)) + ", which is no request");
  const auto sequence = Reader(request).number<uint64_t>();
  connection.answer = Kind::Reply;
  try {
    if (!sequence || !config_.once || kind == Kind::Pull || kind == Kind::Get) {
      execute(connection, kind, request, still_wanted, [] {});
      return;
    }
    ExactlyOnce::Turn turn = once.begin(connection.peer.client, connection.peer.lane, sequence, still_wanted);
    if (turn.first()) {
      execute(connection, kind, request, still_wanted,
              [&] { turn.finish({connection.answer, std::string(connection.reply.view())}); });
    } else if (turn.kept()) {
      connection.answer = turn.kept()->kind;
      connection.put(turn.kept()->bytes);
    } else if (kind == Kind::Push) {  // done before a restart; what it answered then is not known any more
      const auto pass = tables.enter(still_wanted);
      connection.put(tables.version(Reader(request).number<PushHead>().table));
    } else {
      connection.put(std::string_view());
    }
  } catch (const AlreadyDone &error) {
    connection.fail(error.what());
  } catch (const Fenced &error) {
    connection.fail(kReplaced + std::string(error.what()));
  }
}

// Runs the request; what it throws becomes the answer. `done` is called when the answer stands, and for a push before
// tables can be shut: who saves the tables and sequences() then has both of the same moment.
void WireServer::execute(Connection &connection, Kind kind, std::string_view request,
                         const std::function<void()> &still_wanted, const std::function<void()> &done) {
  auto attempt = [&](auto work) {
    std::string error;
    try {
      work();
      return;
    } catch (const ConnectionLost &) {
      throw;
    } catch (const Cancelled &) {
      throw;
    } catch (const HandlerError &e) {
      error = e.what();
    } catch (const NotFinite &e) {
      error = std::string("ModelError: ") + e.what();
    } catch (const std::bad_alloc &) {
      error = "MemoryError: the server has no memory for this";
    } catch (const std::exception &e) {
      error = std::string("ValueError: ") + e.what();
    }
    connection.fail(error);
  };
  if (kind == Kind::Call) {
    Reader reader(request);
    reader.number<uint64_t>();
    const auto length = reader.number<uint16_t>();
    reader.take(6);
    const std::string_view op = reader.take(length);
    reader.take((8 - length % 8) % 8);
    const std::string_view body = reader.rest();
    attempt([&] { handler_(connection.peer, op, body, connection.body, connection.reply); });
    done();
    return;
  }
  if (kind == Kind::Get) {
    attempt([&] { getter_(request, connection.reply, connection.scratch); });
    done();
    return;
  }
  const auto pass = tables.enter(still_wanted);
  attempt([&] {
    if (kind == Kind::Pull)
      tables.pull(request, connection.reply, connection.scratch);
    else
      connection.put(tables.push(request, connection.scratch));
  });
  done();
}

}  // namespace clickline
