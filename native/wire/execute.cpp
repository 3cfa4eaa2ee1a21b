// Executing a request, once if it has a sequence number, and putting its answer into the connection's buffer.
#include <new>

#include "wire/connection.h"

namespace clickline::wire {

namespace {

constexpr size_t kKeptAnswer = size_t{64} << 10;  // larger ones are had again from the handler, if it can do that

thread_local const ExactlyOnce::Turn *handling = nullptr;  // of the request that a handler works on, on this thread

struct Handling {
  explicit Handling(const ExactlyOnce::Turn *turn) { handling = turn; }
  ~Handling() { handling = nullptr; }
};

// What `work` throws becomes the answer.
template <class Connection, class Work>
void guarded(Connection &connection, Work work) {
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
  } catch (const table::NotFinite &e) {
    error = std::string("ModelError: ") + e.what();
  } catch (const std::bad_alloc &) {
    error = "MemoryError: the server has no memory for this";
  } catch (const std::exception &e) {
    error = std::string("ValueError: ") + e.what();
  }
  connection.fail(error);
}

}  // namespace

bool WireServer::already_done() const { return handling && handling->done_before(); }

// Puts into connection.reply what is to be sent.
void WireServer::answer(Connection &connection, const FrameHeader &header, std::string_view request) {
  const std::function<void()> still_wanted = [&] {
    watch_.check();
    if (connection.channel.gone()) throw ConnectionLost("the client is gone");
    once.check(connection.peer.client);
  };
  const FrameKind kind = header.kind;
  if (kind != FrameKind::Call && kind != FrameKind::Pull && kind != FrameKind::Push &&
      !(kind == FrameKind::Get && getter_))
    throw Garbled("frame of kind " + std::to_string(static_cast<int>(kind)) + ", which is not a request");
  const auto sequence = PayloadReader(request).number<uint64_t>();
  connection.answer = FrameKind::Reply;
  try {
    if (!sequence || !config_.once || kind == FrameKind::Pull || kind == FrameKind::Get) {
      execute(connection, kind, request, still_wanted, nullptr);
      return;
    }
    ExactlyOnce::Turn turn = once.begin(connection.peer.client, connection.peer.lane, sequence, still_wanted);
    if (!turn.first() || !execute(connection, kind, request, still_wanted, &turn))
      repeat(connection, kind, request, still_wanted, turn);
  } catch (const AlreadyDone &error) {
    connection.fail(error.what());
  } catch (const Fenced &error) {
    connection.fail(error.what());
    connection.answer = FrameKind::Replaced;
  }
}

// Answers what was executed before.
void WireServer::repeat(Connection &connection, FrameKind kind, std::string_view request,
                        const std::function<void()> &still_wanted, ExactlyOnce::Turn &turn) {
  if (turn.kept()) {
    connection.answer = turn.kept()->kind;
    connection.put(turn.kept()->bytes);
  } else if (kind == FrameKind::Push) {  // done before a restart; what it answered then is not known any more
    const auto pass = tables.enter(still_wanted);
    connection.put(tables.version(PayloadReader(request).number<PushHead>().table));
  } else if (config_.answers_again) {
    handle(connection, request, &turn);
  } else {
    connection.put(std::string_view());
  }
}

void WireServer::handle(Connection &connection, std::string_view request, const ExactlyOnce::Turn *turn) {
  PayloadReader reader(request);
  reader.number<uint64_t>();
  const auto length = reader.number<uint16_t>();
  reader.take(6);
  const std::string_view op = reader.take(length);
  reader.take((8 - length % 8) % 8);
  const std::string_view body = reader.rest();
  const Handling here(turn);
  guarded(connection, [&] { handler_(connection.peer, op, body, connection.body, connection.reply); });
}

// Runs the request; what it throws becomes the answer. The turn is finished when the answer is complete, and for a push
// before tables can be shut: a checkpoint then has tables and sequences() of the same moment. False: nothing was done,
// because the request was executed before, according to a checkpoint that was loaded while it waited for the tables.
bool WireServer::execute(Connection &connection, FrameKind kind, std::string_view request,
                         const std::function<void()> &still_wanted, ExactlyOnce::Turn *turn) {
  if (kind == FrameKind::Call) {
    handle(connection, request, turn);
    const bool large = connection.reply.size() > kKeptAnswer && connection.answer == FrameKind::Reply;
    if (turn) turn->finish(connection.answer, connection.reply.view(), !(large && config_.answers_again));
    return true;
  }
  if (kind == FrameKind::Get) {
    guarded(connection, [&] { getter_(request, connection.reply, connection.scratch); });
    return true;
  }
  const auto pass = tables.enter(still_wanted);
  if (turn && turn->done_before()) return false;
  guarded(connection, [&] {
    if (kind == FrameKind::Pull) {
      tables.pull(request, connection.reply, connection.scratch);
    } else {
      connection.reply.resize(sizeof(uint64_t));  // before anything changes: there is memory for the answer
      connection.put(tables.push(request, connection.scratch));
    }
  });
  if (turn) turn->finish(connection.answer, connection.reply.view(), true);
  return true;
}

}  // namespace clickline::wire
