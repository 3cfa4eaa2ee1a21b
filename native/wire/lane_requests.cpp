// CALL, PULL and PUSH, cut into one request per server.
#include "wire/lane_requests.h"

#include <limits>

#include "base/half.h"

namespace clickline::wire {

namespace {

template <class T>
iovec piece(const T *from, size_t count) {
  return {const_cast<std::remove_const_t<T> *>(from), count * sizeof(T)};
}

template <class Head>
std::string bytes(const Head &head) {
  return {reinterpret_cast<const char *>(&head), sizeof head};
}

void widen(Width width, const char *from, float *to, size_t count) {
  const auto *halves = reinterpret_cast<const uint16_t *>(from);
  width == Width::Fp16 ? base::from_fp16(halves, to, count) : base::from_bf16(halves, to, count);
}

}  // namespace

// Which keys are whose; and that they come in bucket order, without which they would go to the wrong server.
std::vector<std::pair<size_t, size_t>> Lane::slices(std::span<const uint64_t> keys) const {
  std::vector<std::pair<size_t, size_t>> result;
  size_t at = 0;
  for (const auto &[first, last] : ranges_) {
    const size_t begin = at;
    uint32_t before = first;
    for (; at < keys.size(); ++at) {
      const uint32_t bucket = base::bucket_of(keys[at]);
      if (bucket >= last) break;
      if (bucket < before)
        throw std::invalid_argument("keys must be in bucket order but number " + std::to_string(at) + ", " +
                                    std::to_string(keys[at]) + ", is of bucket " + std::to_string(bucket) +
                                    " after one of a later bucket");
      before = bucket;
    }
    result.emplace_back(begin, at);
  }
  return result;
}

std::vector<Buffer> Lane::call(const std::string &op, std::span<const size_t> to,
                               std::span<const std::vector<iovec>> bodies, bool once, std::optional<double> deadline) {
  if (op.empty() || op.size() > 255)
    throw std::invalid_argument("op must have 1 to 255 bytes but has " + std::to_string(op.size()));
  if (deadline && !(*deadline > 0))
    throw std::invalid_argument("deadline must be above 0 but got " + std::to_string(*deadline));
  PayloadWriter head;
  head.number(uint64_t{0}).number(static_cast<uint16_t>(op.size())).raw(std::string(6, '\0')).raw(op);
  head.raw(std::string((8 - op.size() % 8) % 8, '\0'));
  std::vector<Request> requests(to.size());
  std::vector<Buffer> replies(to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    Request &request = requests[i];
    request.link = links_.at(to[i]).get();
    request.kind = FrameKind::Call;
    request.once = once;
    request.head = head.bytes();
    request.pieces.resize(1);
    request.pieces.insert(request.pieces.end(), bodies[i].begin(), bodies[i].end());
    request.buffer = &replies[i];
  }
  exchange(requests, deadline.value_or(config_.deadline));
  return replies;
}

std::vector<uint64_t> Lane::pull(uint32_t table, std::span<const uint64_t> keys, float *out, uint32_t dim, bool training,
                                 const uint16_t *slots, Width width) {
  const auto parts = slices(keys);
  std::vector<uint64_t> versions(parts.size(), 0);
  std::vector<Request> requests;
  std::vector<Buffer> narrow(width == Width::Fp32 ? 0 : parts.size()), errors(parts.size());
  for (size_t s = 0; s < parts.size(); ++s) {
    const auto [begin, end] = parts[s];
    const size_t count = end - begin;
    if (!count) continue;
    Request request;
    request.link = links_[s].get();
    request.kind = FrameKind::Pull;
    request.head = bytes(PullHead{0, table, training, width, slots != nullptr, 0, dim, 0, count});
    request.pieces = {iovec{}, piece(keys.data() + begin, count)};
    if (slots) request.pieces.push_back(piece(slots + begin, count));
    const size_t size = count * dim * bytes_of(width);
    void *rows = width == Width::Fp32 ? static_cast<void *>(out + begin * dim) : narrow[s].resize(size);
    request.places = {piece(&versions[s], 1), iovec{rows, size}};
    request.buffer = &errors[s];
    requests.push_back(std::move(request));
  }
  exchange(requests, config_.deadline);
  for (size_t s = 0; s < narrow.size(); ++s)
    if (const auto [begin, end] = parts[s]; begin < end)
      widen(width, narrow[s].data(), out + begin * dim, (end - begin) * dim);
  return versions;
}

void Lane::push(PushHead head, const PushArrays &arrays, std::span<const uint64_t> based_on) {
  if (!based_on.empty() && based_on.size() != links_.size())
    throw std::invalid_argument("based_on must have one entry for each of the " + std::to_string(links_.size()) +
                                " servers but has " + std::to_string(based_on.size()));
  const auto parts = slices(arrays.keys);
  const size_t dim = head.dim;
  Buffer narrow;
  const char *gradients = reinterpret_cast<const char *>(arrays.gradients);
  if (head.width != Width::Fp32) {
    const size_t count = arrays.keys.size() * dim;
    auto *halves = reinterpret_cast<uint16_t *>(narrow.resize(count * sizeof(uint16_t)));
    head.width == Width::Fp16 ? base::to_fp16(arrays.gradients, halves, count)
                              : base::to_bf16(arrays.gradients, halves, count);
    gradients = narrow.data();
  }
  const size_t stride = dim * bytes_of(head.width);
  std::vector<Request> requests(parts.size());
  std::vector<Buffer> replies(parts.size());
  for (size_t s = 0; s < parts.size(); ++s) {
    const auto [begin, end] = parts[s];
    Request &request = requests[s];
    head.count = end - begin;
    head.based_on = based_on.empty() || !head.count ? kNoVersion : based_on[s];
    request.link = links_[s].get();
    request.kind = FrameKind::Push;
    request.once = true;
    request.head = bytes(head);
    request.pieces = {iovec{}, piece(arrays.keys.data() + begin, head.count), piece(arrays.shows + begin, head.count),
                      piece(arrays.clicks + begin, head.count),
                      piece(gradients + begin * stride, head.count * stride), piece(arrays.slots + begin, head.count)};
    request.buffer = &replies[s];
  }
  exchange(requests, config_.deadline);
}

}  // namespace clickline::wire
