// Checking a server's answer before any of it is used.
#include <algorithm>

#include "cube/client/shard_requests.h"

namespace clickline::cube {

void CubeClient::answered(Call &call, ShardRequest &request, Attempt &attempt) {
  if (attempt.link->header().kind == wire::FrameKind::Error) {
    refused(call, request, attempt);
    return;
  }
  const std::string_view payload = attempt.link->payload();
  wire::PayloadReader reader(payload);
  const auto head = reader.number<GetReplyHead>();
  if (call.version && head.version != call.version) {
    ++counts.mismatches;
    throw wire::Garbled("an answer from version " + std::to_string(head.version) + " instead of " +
                        std::to_string(call.version));
  }
  if (head.count != request.keys.size())
    throw wire::Garbled("an answer about " + std::to_string(head.count) + " keys instead of " +
                        std::to_string(request.keys.size()));
  request.head = head;
  request.status = reinterpret_cast<const uint8_t *>(reader.take(padded(head.count)).data());
  if (head.row_bytes) {
    request.offsets = nullptr;
    request.values = reader.items(head.count, head.row_bytes).data();
  } else {
    request.offsets = reinterpret_cast<const uint64_t *>(reader.items(head.count + 1, sizeof(uint64_t)).data());
    const std::string_view values = reader.take(request.offsets[head.count]);
    request.values = values.data();
    if (request.offsets[0] || !std::is_sorted(request.offsets, request.offsets + head.count + 1))
      throw wire::Garbled("the values of an answer overlap");
  }
  reader.end();
  if (std::any_of(request.status, request.status + head.count, [](uint8_t each) { return each > 1; }))
    throw wire::Garbled("an answer with a status that no server gives");
  see(head.number, head.current);
  attempt.replica->succeeded();
  if (attempt.hedge) ++counts.hedges_won;
  request.winner = std::move(attempt.replica);
  request.link = std::move(attempt.link);
  request.state = ShardRequest::State::Done;
  --call.waiting;
  for (Attempt &other : request.attempts)
    if (other.link) other.replica->give(std::move(other.link));  // its answer is taken in when it comes
}

// The server is well but cannot answer this.
void CubeClient::refused(Call &call, ShardRequest &request, Attempt &attempt) {
  const std::string text(attempt.link->payload());
  const std::string said = "shard " + std::to_string(request.shard) + ", " + attempt.replica->address + ": " + text;
  if (!attempt.link->header().number) throw wire::ConnectionLost(text);  // it closes after that
  attempt.link->finish();
  request.error = said;
  if (text.starts_with(kNoSuchVersion)) {
    request.lacks |= uint64_t{1} << attempt.index;
  } else if (text.starts_with(kNoSuchTable)) {
    call.no_such_table = text;
    request.state = ShardRequest::State::Failed;
    --call.waiting;
  } else {
    ++counts.failures;
    ++request.failures;
    attempt.replica->failed(wire::Clock::now());
  }
  attempt.replica->give(std::move(attempt.link));
}

}  // namespace clickline::cube
