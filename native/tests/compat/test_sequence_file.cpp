// SequenceFiles: literal bytes, round trips, and that no file, however garbled, does more than throw.
#include <fstream>
#include <iterator>
#include <random>

#include "compat/sequence_file.h"
#include "check.h"

using namespace clickline::compat;

namespace {

const std::string kPath = "test_sequence_file.tmp";
constexpr SyncMark kMark = {'s', 'y', 'n', 'c', 's', 'y', 'n', 'c', 's', 'y', 'n', 'c', 's', 'y', 'n', 'c'};

std::string read_file() {
  std::ifstream in(kPath, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string &bytes) {
  std::ofstream out(kPath, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string written(const std::vector<std::string> &values) {
  SequenceWriter writer(kPath, kMark);
  for (size_t i = 0; i < values.size(); ++i) writer.append(i * 0x0102030405060708, values[i]);
  writer.finish();
  CHECK_EQ(writer.records(), values.size());
  return read_file();
}

std::vector<std::string> all(uint64_t records, uint64_t bytes) {
  SequenceReader reader(kPath);
  std::vector<std::string> values;
  for (;;) {
    const SequenceChunk chunk = reader.read(records, bytes);
    if (chunk.keys.empty()) break;
    CHECK(chunk.keys.size() <= records);
    CHECK_EQ(chunk.offsets.size(), chunk.keys.size() + 1);
    CHECK_EQ(chunk.offsets.back(), chunk.bytes.size());
    for (size_t i = 0; i < chunk.keys.size(); ++i) {
      CHECK_EQ(chunk.keys[i], values.size() * 0x0102030405060708);
      values.push_back(chunk.bytes.substr(chunk.offsets[i], chunk.offsets[i + 1] - chunk.offsets[i]));
    }
  }
  CHECK_EQ(reader.position(), reader.size());
  return values;
}

std::string front() {
  using namespace std::string_literals;
  return "SEQ\x06\"org.apache.hadoop.io.BytesWritable\"org.apache.hadoop.io.BytesWritable\0\0\0\0\0\0"s +
         "syncsyncsyncsync";
}

void has_the_bytes_that_others_read() {
  using namespace std::string_literals;
  CHECK_EQ(written({}), front());
  CHECK_EQ(written({"ab", ""}), front() + "\0\0\0\x0a\0\0\0\x08\0\0\0\0\0\0\0\0ab"s +
                                    "\0\0\0\x08\0\0\0\x08\x08\x07\x06\x05\x04\x03\x02\x01"s);
  // 8 + 1992 bytes of key and value are 2000: the mark follows at once. One byte less, and it follows the next record.
  const std::string exact(1992, 'x'), less(1991, 'x');
  CHECK_EQ(written({exact}), front() + "\0\0\x07\xd0\0\0\0\x08\0\0\0\0\0\0\0\0"s + exact + "\xff\xff\xff\xff"s +
                                 "syncsyncsyncsync");
  CHECK_EQ(written({less}), front() + "\0\0\x07\xcf\0\0\0\x08\0\0\0\0\0\0\0\0"s + less);
  CHECK(written({less, ""}).ends_with("\xff\xff\xff\xffsyncsyncsyncsync"));
}

void comes_back_as_it_was() {
  std::mt19937_64 random(1);
  std::vector<std::string> values;
  for (int i = 0; i < 3000; ++i) values.emplace_back(random() % 900, static_cast<char>(random()));
  values.emplace_back(3 << 20, 'l');  // more than a buffer
  values.emplace_back();
  written(values);
  for (const auto &[records, bytes] : {std::pair{1ull, 1ull}, {7ull, 1000ull}, {1000000ull, 1000ull << 20}})
    CHECK(all(records, bytes) == values);
}

void refuses(const std::string &bytes, const char *why) {
  write_file(bytes);
  CHECK_THROWS(all(100, 1 << 20), why);
}

void says_what_is_wrong() {
  using namespace std::string_literals;
  refuses("", "only 0 are left");
  refuses("GIF89a", "'SEQ' is expected, got 'GIF'");
  refuses("SEQ\x04", "version 6 is expected, got 4");
  refuses("SEQ\x06\x19org.apache.hadoop.io.Text"s, "must be org.apache.hadoop.io.BytesWritable");
  std::string compressed = front();
  compressed[74] = 1;
  refuses(compressed, "compressed");
  refuses(front().substr(0, 90), "only ");
  refuses(front() + "\0\0\0\x0a\0\0\0\x0c"s, "Hadoop's own writer");
  refuses(front() + "\0\0\0\x07\0\0\0\x08"s, "got 7");
  refuses(front() + "\x7f\xff\xff\xff\0\0\0\x08"s, "got 2147483647");
  refuses(front() + "\0\xff\xff\xff\0\0\0\x08zz"s, "a record of 16777215 bytes is expected, but only 2 are left");
  refuses(front() + "\xff\xff\xff\xffsyncsyncsyncsynC"s, "not the one of the file's header");
  CHECK_THROWS(SequenceReader("no such file"), "cannot be opened");
  CHECK_THROWS(SequenceReader("."), "not a regular file");
  CHECK_THROWS(SequenceWriter("no such directory/file", kMark), "cannot be opened");
  write_file(front() + "\0\0\0\x08\0\0\0\x08keykeyke\0\0"s);
  SequenceReader reader(kPath);
  CHECK_THROWS(reader.read(10, 10), "only 2 are left");
  CHECK_THROWS(reader.read(10, 10), "only 2 are left");  // and stays there
}

void survives_any_file() {
  std::mt19937_64 random(2);
  std::vector<std::string> values;
  for (int i = 0; i < 40; ++i) values.emplace_back(random() % 200, static_cast<char>(random()));
  const std::string good = written(values);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (uint64_t flips = 1 + random() % 3; flips--;) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bad.resize(random() % bad.size());
    write_file(bad);
    try {
      SequenceReader reader(kPath);
      while (!reader.read(1 + random() % 50, random() % 5000).keys.empty()) ++read;
    } catch (const SequenceFileError &) {
    }
  }
  CHECK(read > 0);
}

}  // namespace

int main() {
  has_the_bytes_that_others_read();
  comes_back_as_it_was();
  says_what_is_wrong();
  survives_any_file();
  std::remove(kPath.c_str());
}
