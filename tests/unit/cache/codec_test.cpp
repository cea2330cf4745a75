// Frames: with each dictionary, without any, and such as nobody should have made.
#include "cache/codec/codec.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <map>
#include <thread>

#include "support/stored.h"

namespace kiln::codec_test {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto blob = as_blob(text);
  return {blob.begin(), blob.end()};
}

/// What a dictionary is made of, turned around and cut: much of it is found there, not all.
Bytes like(const Dictionary& dictionary) {
  const auto half = dictionary.bytes.size() / 2;
  Bytes bytes(dictionary.bytes.begin() + half, dictionary.bytes.begin() + half + 20'000);
  for (std::size_t i = 0; i < bytes.size(); i += 97) bytes[i] ^= std::byte{1};
  return bytes;
}

/// A frame made with any bytes for a dictionary.
Bytes frame_with(std::span<const std::byte> dictionary, const Bytes& bytes, bool named = true) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, named ? 1 : 0);
  ZSTD_CCtx_loadDictionary(context, dictionary.data(), dictionary.size());
  Bytes out(ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  out.resize(size);
  return out;
}

/// The same with another number: two bytes, lowest first, at this place.
Bytes renumbered(std::span<const std::byte> bytes, std::size_t at, unsigned id) {
  Bytes changed(bytes.begin(), bytes.end());
  changed.at(at) = std::byte(id & 255);
  changed.at(at + 1) = std::byte(id >> 8);
  return changed;
}
constexpr std::size_t kIdOfDictionary = 4;  // behind the magic number
constexpr std::size_t kIdOfFrame = 5;       // and behind the descriptor of a single segment

TEST(Codec, RoundTripsAndRefusesLies) {
  const auto bytes = test::code_of(3).image;
  for (const Content content : {Content::other, Content::source, Content::cubin, Content::x86}) {
    for (const Level level : {Level::fast, Level::small}) {
      const auto stored = compress(bytes, content, level);
      EXPECT_LT(stored.size(), bytes.size());
      EXPECT_EQ(decompress(stored, 5000), bytes);
      EXPECT_FALSE(decompress(stored, 4999));
      EXPECT_FALSE(decompress(stored, 5001));
      EXPECT_FALSE(decompress(stored, -1));
      EXPECT_FALSE(decompress(stored, kMaxBlobBytes + 1));
      for (std::size_t cut = 0; cut < stored.size(); ++cut)
        EXPECT_FALSE(decompress(std::span(stored).first(cut), 5000)) << cut;
      EXPECT_EQ(decompress(compress({}, content, level), 0), Bytes{});
    }
  }
  EXPECT_FALSE(decompress(bytes, 5000));
  EXPECT_FALSE(decompress({}, 0));
  EXPECT_EQ(content_hash("").size(), 32u);
  EXPECT_NE(content_hash("a"), content_hash("b"));
}

// What changes here cannot be undone: files hold frames that need these bytes under these numbers.
TEST(Dictionaries, ANumberStandsForTheSameBytesForEver) {
  const std::map<unsigned, std::string> released = {{33001, "08069101af66752319a7a50bdf5f129d"},
                                                    {33002, "dacfe25820ce35b29c46652224190761"},
                                                    {33003, "22992686b0a2343ef8695ed80012e81a"}};
  std::map<unsigned, std::string> now;
  for (const Dictionary& dictionary : dictionaries()) {
    EXPECT_GE(dictionary.id, 32768u) << "below are numbers of public dictionaries";
    EXPECT_LT(dictionary.id, 65536u) << "above it a frame takes two bytes more";
    EXPECT_EQ(ZSTD_getDictID_fromDict(dictionary.bytes.data(), dictionary.bytes.size()),
              dictionary.id);
    EXPECT_TRUE(now.emplace(dictionary.id, content_hash(dictionary.bytes)).second);
  }
  EXPECT_EQ(now, released);
}

TEST(Dictionaries, EachContentIsCompressedWithItsOwn) {
  for (const Dictionary& dictionary : dictionaries()) {
    const Bytes bytes = like(dictionary);
    const auto with = compress(bytes, dictionary.content);
    EXPECT_EQ(ZSTD_getDictID_fromFrame(with.data(), with.size()), dictionary.id);
    EXPECT_EQ(decompress(with, std::ssize(bytes)), bytes);
    const auto without = compress(bytes, Content::other);
    EXPECT_EQ(ZSTD_getDictID_fromFrame(without.data(), without.size()), 0u);
    EXPECT_LT(2 * with.size(), without.size());
    EXPECT_LE(compress(bytes, dictionary.content, Level::small).size(), with.size());
  }
}

TEST(Dictionaries, MachineCodeIsKnownByItsHeader) {
  const auto of_machine = [](int machine) {
    Bytes image = bytes_of("\177ELF");
    image.resize(64);
    image[18] = std::byte(machine);
    return image;
  };
  EXPECT_EQ(content_of(of_machine(62)), Content::x86);
  EXPECT_EQ(content_of(of_machine(190)), Content::cubin);
  EXPECT_EQ(content_of(of_machine(224)), Content::other) << "AMD's have no dictionary";
  EXPECT_EQ(content_of(of_machine(183)), Content::other);
  const Bytes whole = of_machine(62);
  EXPECT_EQ(content_of(std::span(whole).first(19)), Content::other);
  EXPECT_EQ(content_of({}), Content::other);
  EXPECT_EQ(content_of(test::code_of(3).image), Content::other);
}

TEST(Dictionaries, FramesOfAnOlderKilnHaveNone) {
  const auto bytes = test::code_of(3).image;
  Bytes old(ZSTD_compressBound(bytes.size()));
  old.resize(ZSTD_compress(old.data(), old.size(), bytes.data(), bytes.size(), 9));
  EXPECT_EQ(decompress(old, std::ssize(bytes)), bytes);
}

TEST(Dictionaries, AnUnknownNumberIsNothing) {
  const Dictionary& ours = dictionaries().front();
  const Bytes bytes = like(ours);
  const Bytes newer = renumbered(ours.bytes, kIdOfDictionary, 65000);
  EXPECT_EQ(decompress(frame_with(ours.bytes, bytes), std::ssize(bytes)), bytes);
  EXPECT_FALSE(decompress(frame_with(newer, bytes), std::ssize(bytes)));
}

TEST(Dictionaries, AWrongOneGivesOtherBytesAndNoneIsNeverGuessed) {
  const Dictionary& source = dictionaries()[0];
  const Dictionary& cubin = dictionaries()[1];
  const Bytes bytes = like(source);
  const auto frame = compress(bytes, source.content);
  EXPECT_NE(decompress(renumbered(frame, kIdOfFrame, cubin.id), std::ssize(bytes)), bytes);
  EXPECT_NE(decompress(frame_with(source.bytes, bytes, false), std::ssize(bytes)), bytes);
  // A second frame behind the first, with another dictionary.
  auto two = compress(bytes, source.content);
  const auto second = compress(bytes, cubin.content);
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_FALSE(decompress(two, std::ssize(bytes)));
  EXPECT_FALSE(decompress(two, 2 * std::ssize(bytes)));
}

TEST(Dictionaries, ManyThreadsMakeAndReadFramesAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (const Dictionary& dictionary : dictionaries()) {
        const Bytes bytes = like(dictionary);
        EXPECT_EQ(decompress(compress(bytes, dictionary.content), std::ssize(bytes)), bytes);
      }
    });
}

}  // namespace kiln::codec_test
