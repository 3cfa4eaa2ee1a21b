// What a cube client believes of an answer.
#include <algorithm>

#include "cube/client/shard_requests.h"

namespace clickline {

void CubeClient::answered(Batch &batch, Ask &ask, Try &each) {
  if (each.link->header().kind == Kind::Error) {
    refused(batch, ask, each);
    return;
  }
  const std::string_view payload = each.link->payload();
  Reader reader(payload);
  const auto head = reader.number<GotHead>();
  if (batch.version && head.version != batch.version) {
    ++counts.mismatches;
    throw Garbled("an answer from version " + std::to_string(head.version) + " instead of " +
                  std::to_string(batch.version));
  }
  if (head.count != ask.keys.size())
    throw Garbled("an answer about " + std::to_string(head.count) + " keys instead of " +
                  std::to_string(ask.keys.size()));
  ask.head = head;
  ask.status = reinterpret_cast<const uint8_t *>(reader.take(padded(head.count)).data());
  if (head.row_bytes) {
    ask.offsets = nullptr;
    ask.values = reader.items(head.count, head.row_bytes).data();
  } else {
    ask.offsets = reinterpret_cast<const uint64_t *>(reader.items(head.count + 1, sizeof(uint64_t)).data());
    const std::string_view values = reader.take(ask.offsets[head.count]);
    ask.values = values.data();
    if (ask.offsets[0] || !std::is_sorted(ask.offsets, ask.offsets + head.count + 1))
      throw Garbled("the values of an answer overlap");
  }
  reader.end();
  if (std::any_of(ask.status, ask.status + head.count, [](uint8_t each) { return each > 1; }))
    throw Garbled("an answer with a status that no server gives");
  see(head.number, head.current);
  each.replica->succeeded();
  if (each.hedge) ++counts.hedges_won;
  ask.winner = std::move(each.replica);
  ask.link = std::move(each.link);
  ask.state = Ask::State::Done;
  --batch.waiting;
  for (Try &other : ask.tries)
    if (other.link) other.replica->give(std::move(other.link));  // its answer is taken in when it comes
}

// The server is well but cannot answer this.
void CubeClient::refused(Batch &batch, Ask &ask, Try &each) {
  const std::string text(each.link->payload());
  const std::string said = "shard " + std::to_string(ask.shard) + ", " + each.replica->address + ": " + text;
  if (!each.link->header().number) throw ConnectionLost(text);  // it closes after that
  each.link->finish();
  ask.error = said;
  if (text.starts_with(kNoSuchVersion)) {
    ask.lacks |= uint64_t{1} << each.index;
  } else if (text.starts_with(kNoSuchTable)) {
    batch.no_such_table = text;
    ask.state = Ask::State::Failed;
    --batch.waiting;
  } else {
    ++counts.failures;
    ++ask.failures;
    each.replica->failed(Clock::now());
  }
  each.replica->give(std::move(each.link));
}

}  // namespace clickline
