// Changed dictionary files for the reader: those of corpus/dictionary and some made here, (mostly) with the header's
// hash made right again. Whatever opens is read in every way; DictionaryError is the only exception that may come.
#include "dictionary/dictionary_testing.h"
#include "fuzz_driver.h"

using namespace clickline::dictionary;
using namespace clickline::testing;

namespace {

const std::string kFile = "dictionary.input", kScratch = "fuzz_dictionary.scratch";

std::vector<std::string> made() {
  std::vector<std::string> result;
  for (const size_t count : {0, 1, 9, 200})
    for (const uint32_t row_bytes : {0u, 8u, 64u}) {
      write(kScratch, random_rows(count, row_bytes, count, count > 1), shape(row_bytes));
      result.push_back(read_file(kScratch));
    }
  write(kScratch, random_rows(100, 8, 1, true), shape(8, 1000, 1017));
  result.push_back(read_file(kScratch));
  return result;
}

// The driver has put the input into kFile.
bool attempt(bool memory, bool merge) {
  try {
    const std::shared_ptr<const Dictionary> d = Dictionary::open({.path = kFile, .memory = memory});
    std::vector<uint64_t> keys(d->keys().begin(), d->keys().begin() + std::min<size_t>(d->keys().size(), 300));
    for (uint64_t i = 0; i < 50; ++i) keys.push_back(key_of((i << 58) - (i & 1)));
    use(d, keys, merge ? kScratch : "");
    d->verify();
    return true;
  } catch (const DictionaryError &) {
    return false;
  }
}

void change(std::string &bytes, Random &random) {
  for (uint64_t changes = 1 + random() % 6; changes; --changes) mutate(bytes, random);
  if (bytes.size() >= kDictionaryHeader && random() % 8) sign(bytes);
}

}  // namespace

int main(int argc, char **argv) {
  size_t tries = 0;
  Fuzzer fuzzer{.name = "dictionary", .made = made(), .change = change};
  fuzzer.attempt = [&](const std::string &) { return ++tries, attempt(tries % 2, tries % 16 == 0); };
  const int result = fuzzer.run(argc, argv);
  std::remove(kScratch.c_str());
  return result;
}
