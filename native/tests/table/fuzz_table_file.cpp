// Changed table files for the loader, (mostly) with the header's checksum made right again. What loads must be whole.
#include "table/draws.h"
#include "table/file/sections.h"
#include "fuzz_driver.h"
#include "table/table_testing.h"

using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::testing;

namespace {

const std::string kFile = "table_file.input", kScratch = "fuzz_table_file.scratch";

TableConfig settings() {
  TableConfig result = config("adam", 3);
  result.policies = {Policy{}, Policy{.count = 5}};
  return result;
}

std::vector<std::string> made() {
  std::vector<std::string> result;
  for (const uint64_t count : {0, 30, 600}) {
    Table table(settings());
    std::vector<uint64_t> keys, rare;
    for (uint64_t i = 0; i < count; ++i) (i % 4 ? keys : rare).push_back(mix64(i));
    table.push(Arrays(keys, 3, 0.5f).at(1), 1);
    table.push(Arrays(rare, 3, 0.25f, 1).at(2), 1);
    table.save(kScratch);
    result.push_back(bytes_of(kScratch));
  }
  std::remove(kScratch.c_str());
  return result;
}

bool attempt(const std::string &) {
  Table table(settings());
  bool loaded = true;
  try {
    table.load(kFile, 0, kBuckets);
  } catch (const TableFileError &) {
    loaded = false;
  }
  const std::vector<uint64_t> keys = table.keys();
  CHECK(keys.size() == table.size());
  CHECK(loaded || keys.empty());
  CHECK(contents(table).size() == keys.size());
  return loaded;
}

void sign(std::string &bytes) {
  if (bytes.size() < kPreamble) return;
  const uint64_t length = load64(&bytes[16]);
  if (length <= bytes.size() - kPreamble) put(bytes, 24, xxh64({bytes.data() + kPreamble, length}, 0));
}

void change(std::string &bytes, Random &random) {
  const uint64_t length = bytes.size() < kPreamble ? 0 : load64(&bytes[16]);
  for (uint64_t changes = 1 + random() % 3; changes; --changes) {
    if (random() % 2 && length && length + kPreamble < bytes.size())  // a character of the header's text
      bytes[kPreamble + random() % (random() % 2 ? length : std::min<uint64_t>(length, 400))] =
          "0123456789,:[]{}\" abcdef"[random() % 24];
    else
      mutate(bytes, random, 400);
  }
  if (random() % 8) sign(bytes);
}

}  // namespace

int main(int argc, char **argv) {
  Fuzzer fuzzer{.name = "table_file", .made = made(), .attempt = attempt, .change = change};
  return fuzzer.run(argc, argv);
}
