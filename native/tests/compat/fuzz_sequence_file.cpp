// Changed SequenceFiles for the reader, with marks where they belong or not. What is read must be within the file.
#include "compat/sequence_file.h"
#include "check.h"
#include "fuzz_driver.h"

using namespace clickline::compat;
using namespace clickline::testing;

namespace {

const std::string kFile = "sequence_file.input", kScratch = "fuzz_sequence_file.scratch";
constexpr SyncMark kMark = {'s', 'y', 'n', 'c', 's', 'y', 'n', 'c', 's', 'y', 'n', 'c', 's', 'y', 'n', 'c'};

std::vector<std::string> made() {
  std::vector<std::string> result;
  Random random(2);
  for (const size_t count : {0, 1, 3, 60}) {
    {
      SequenceWriter writer(kScratch, kMark);
      for (size_t i = 0; i < count; ++i) writer.append(random(), std::string(random() % 200, 'v'));
      writer.finish();
    }
    result.push_back(bytes_of(kScratch));
  }
  std::remove(kScratch.c_str());
  return result;
}

bool attempt(uint64_t records, uint64_t bytes) {
  try {
    SequenceReader reader(kFile);
    uint64_t values = 0;
    for (;;) {
      const SequenceChunk chunk = reader.read(records, bytes);
      if (chunk.keys.empty()) break;
      CHECK(chunk.keys.size() <= records);
      CHECK_EQ(chunk.offsets.size(), chunk.keys.size() + 1);
      CHECK_EQ(chunk.offsets.back(), chunk.bytes.size());
      CHECK(std::is_sorted(chunk.offsets.begin(), chunk.offsets.end()));
      values += chunk.bytes.size();
      CHECK(values <= reader.size());
    }
    CHECK_EQ(reader.position(), reader.size());
    return true;
  } catch (const SequenceFileError &) {
    return false;
  }
}

}  // namespace

int main(int argc, char **argv) {
  Random random(3);
  Fuzzer fuzzer{.name = "sequence_file", .made = made()};
  fuzzer.attempt = [&](const std::string &) { return attempt(1 + random() % 50, random() % 5000); };
  return fuzzer.run(argc, argv);
}
