// Requests on tables: waiting until the service is open, checking the request, converting widths.
#include "pserver/table_service.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/half.h"

namespace clickline::pserver {

namespace {

template <class T>
const T *array(std::string_view bytes) {  // the requests' layout keeps every array aligned
  return reinterpret_cast<const T *>(bytes.data());
}

wire::Width checked(wire::Width width) {
  if (width > wire::Width::Bf16)
    throw std::invalid_argument("no number format " + std::to_string(static_cast<int>(width)));
  return width;
}

void raise_to(std::atomic<uint64_t> &largest, uint64_t value) {
  uint64_t seen = largest.load();
  while (seen < value && !largest.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

TableService::Pass TableService::enter(const StillWanted &still_wanted) {
  std::unique_lock lock(mutex_);
  while (!closed_ && (!open_ || changing_)) {
    changed_.wait_for(lock, std::chrono::milliseconds(50));
    lock.unlock();
    still_wanted();
    lock.lock();
  }
  if (closed_) throw wire::Cancelled("the server is closing");
  ++under_way_;
  return Pass(*this);
}

void TableService::leave() {
  std::lock_guard lock(mutex_);
  if (!--under_way_) changed_.notify_all();
}

void TableService::wait_until_idle(std::unique_lock<std::mutex> &lock) {
  changed_.wait(lock, [&] { return !under_way_; });
}

void TableService::add(uint32_t number, table::Table *table, double damping) {
  if (!(damping >= 0 && damping <= 1)) throw std::invalid_argument("damping must be 0 to 1");
  std::unique_lock lock(mutex_);
  ++changing_;
  wait_until_idle(lock);
  tables_[number] = table;
  damping_[number] = damping;
  --changing_;
  changed_.notify_all();
}

void TableService::open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void TableService::shut() {
  std::unique_lock lock(mutex_);
  open_ = false;
  wait_until_idle(lock);
}

void TableService::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

table::Table &TableService::table(uint32_t number, uint32_t dim) {
  const auto found = tables_.find(number);
  if (found == tables_.end()) {
    std::string known;
    for (const auto &[other, _] : tables_) known += (known.empty() ? "" : ", ") + std::to_string(other);
    throw std::invalid_argument("no table " + std::to_string(number) + " here; known: " + (known.empty() ? "none" : known));
  }
  if (dim && found->second->layout().dim != dim)
    throw std::invalid_argument("table " + std::to_string(number) + " has rows of " +
                                std::to_string(found->second->layout().dim) + " weights, not " + std::to_string(dim));
  return *found->second;
}

uint64_t TableService::version(uint32_t number) { return table(number, 0).step(); }

void TableService::pull(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch) {
  wire::PayloadReader reader(request);
  const auto head = reader.number<wire::PullHead>();
  const wire::Width width = checked(head.width);
  const table::Table &from = table(head.table, head.dim ? head.dim : std::numeric_limits<uint32_t>::max());
  const auto *keys = array<uint64_t>(reader.items(head.count, sizeof(uint64_t)));
  const auto *slots = head.with_slots ? array<uint16_t>(reader.items(head.count, sizeof(uint16_t))) : nullptr;
  reader.end();
  const size_t values = head.count * head.dim;  // the count is one of keys that are here, dim at most 4096
  const size_t size = sizeof(uint64_t) + values * wire::bytes_of(width);
  if (size > max_reply)
    throw std::invalid_argument(std::to_string(head.count) + " rows are " + std::to_string(size) +
                                " bytes, but frames have at most " + std::to_string(max_reply));
  char *out = reply.resize(size);
  const uint64_t version = from.step();  // before the rows are read: a push in between makes them newer, never older
  std::memcpy(out, &version, sizeof version);
  out += sizeof version;
  const bool direct = width == wire::Width::Fp32;
  float *rows = reinterpret_cast<float *>(direct ? out : scratch.resize(values * sizeof(float)));
  from.pull({keys, head.count}, rows, head.training, slots, 1);
  if (width == wire::Width::Fp16) base::to_fp16(rows, reinterpret_cast<uint16_t *>(out), values);
  if (width == wire::Width::Bf16) base::to_bf16(rows, reinterpret_cast<uint16_t *>(out), values);
  ++counts.pulls;
  counts.rows_pulled += head.count;
}

uint64_t TableService::push(std::string_view request, wire::Buffer &scratch) {
  wire::PayloadReader reader(request);
  const auto head = reader.number<wire::PushHead>();
  const wire::Width width = checked(head.width);
  table::Table &to = table(head.table, head.dim ? head.dim : std::numeric_limits<uint32_t>::max());
  const auto *keys = array<uint64_t>(reader.items(head.count, sizeof(uint64_t)));
  const auto *shows = array<float>(reader.items(head.count, sizeof(float)));
  const auto *clicks = array<float>(reader.items(head.count, sizeof(float)));
  const std::string_view sent = reader.items(head.count, head.dim * wire::bytes_of(width));
  const auto *slots = array<uint16_t>(reader.items(head.count, sizeof(uint16_t)));
  reader.end();
  if (!std::isfinite(head.scale)) throw std::invalid_argument("scale must be finite");
  const size_t values = head.count * head.dim;
  const float *gradients = array<float>(sent);
  if (width != wire::Width::Fp32) {
    auto *wide = reinterpret_cast<float *>(scratch.resize(values * sizeof(float)));
    (width == wire::Width::Fp16 ? static_cast<void (*)(const uint16_t *, float *, size_t)>(base::from_fp16)
                          : static_cast<void (*)(const uint16_t *, float *, size_t)>(base::from_bf16))(
        array<uint16_t>(sent), wide, values);
    gradients = wide;
  }
  if (head.lease) {  // room for what is noted below, before anything changes
    std::lock_guard lock(progress_mutex_);
    progress_.try_emplace(head.lease, 0);
  }
  bool wanted = true;
  double scale = head.scale;
  if (const uint64_t version = to.step(); head.based_on != wire::kNoVersion) {
    const uint64_t staleness = version > head.based_on ? version - head.based_on : 0;
    counts.staleness_sum += staleness;
    raise_to(counts.staleness_max, staleness);
    wanted = !head.max_staleness || staleness <= head.max_staleness;
    if (const double damping = damping_.at(head.table); damping > 0 && staleness)
      scale *= std::pow(1.0 + static_cast<double>(staleness), -damping);
  }
  if (wanted) {
    to.push({{keys, head.count}, gradients, shows, clicks, slots, head.tick, scale}, 1);
    ++counts.pushes;
    counts.rows_pushed += head.count;
  } else {
    ++counts.discarded;
  }
  if (head.lease) {  // a discarded push is done too: its rows are not to be read again
    std::lock_guard lock(progress_mutex_);
    if (const auto found = progress_.find(head.lease); found != progress_.end())  // else it was forgotten meanwhile
      found->second = std::max(found->second, head.rows_done);
  }
  return to.step();
}

std::vector<std::pair<uint64_t, uint64_t>> TableService::progress() const {
  std::lock_guard lock(progress_mutex_);
  return {progress_.begin(), progress_.end()};
}

void TableService::forget_progress(const std::vector<uint64_t> &leases) {
  std::lock_guard lock(progress_mutex_);
  for (uint64_t lease : leases) progress_.erase(lease);
}

}  // namespace clickline::pserver
