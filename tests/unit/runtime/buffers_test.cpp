#include "runtime/buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "kiln/numeric.hpp"

namespace kiln::buffers_test {

using testing::HasSubstr;

TEST(GuardedBuffer, DataIsAlignedWritableAndUndamaged) {
  for (std::size_t bytes : {0, 1, 63, 64, 4095, 4096, 4097, 100000})
    for (std::size_t alignment : {1, 4, 64, 4096})
      for (Guard guard : {Guard::after, Guard::before}) {
        const auto buffer = GuardedBuffer::make(bytes, alignment, guard);
        ASSERT_TRUE(buffer) << buffer.error().message;
        EXPECT_EQ(buffer->size(), bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % alignment, 0u);
        for (std::size_t i = 0; i < bytes; ++i) buffer->data()[i] = std::byte{7};
        EXPECT_EQ(buffer->damage(), std::nullopt);
        EXPECT_TRUE(buffer->owns(buffer->data()));
        EXPECT_FALSE(buffer->owns(&buffer));
      }
}

TEST(GuardedBuffer, AWriteIntoTheGapsIsFound) {
  auto buffer = GuardedBuffer::make(60, 64);
  ASSERT_TRUE(buffer);
  const auto flip = [&](int at) { buffer->data()[at] ^= std::byte{1}; };
  for (int at : {60, 63}) {
    flip(at);
    EXPECT_EQ(buffer->damage(), "write " + std::to_string(at - 60) + " bytes past the end");
    flip(at);
  }
  for (int at : {-1, -100}) {
    flip(at);
    EXPECT_EQ(buffer->damage(), "write " + std::to_string(-at) + " bytes before the start");
    flip(at);
  }
  EXPECT_EQ(buffer->damage(), std::nullopt);
}

TEST(GuardedBuffer, ATouchBeyondThePageFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto after = GuardedBuffer::make(64, 64, Guard::after);
  const auto before = GuardedBuffer::make(64, 64, Guard::before);
  ASSERT_TRUE(after && before);
  volatile std::byte* past = after->data() + 64;
  volatile std::byte* ahead = before->data() - 1;
  EXPECT_DEATH(static_cast<void>(*past), "");
  EXPECT_DEATH(*past = std::byte{1}, "");
  EXPECT_DEATH(static_cast<void>(*ahead), "");
  EXPECT_DEATH(*ahead = std::byte{1}, "");
  EXPECT_TRUE(after->owns(const_cast<std::byte*>(past)));
  EXPECT_TRUE(before->owns(const_cast<std::byte*>(ahead)));
}

TEST(GuardedBuffer, InputsCanBeMadeReadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto buffer = GuardedBuffer::make(64);
  ASSERT_TRUE(buffer);
  *buffer->as<float>() = 3;
  ASSERT_TRUE(buffer->set_writable(false));
  EXPECT_EQ(*buffer->as<float>(), 3);
  EXPECT_DEATH(*buffer->as<volatile float>() = 4, "");
  ASSERT_TRUE(buffer->set_writable(true));
  *buffer->as<float>() = 4;
  EXPECT_EQ(buffer->damage(), std::nullopt);
}

TEST(GuardedBuffer, MovesItsMemory) {
  auto first = std::move(*GuardedBuffer::make(10));
  std::byte* data = first.data();
  GuardedBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  first = std::move(*GuardedBuffer::make(20));
  std::swap(first, second);
  EXPECT_EQ(first.data(), data);
  EXPECT_EQ(second.size(), 20u);
}

TEST(GuardedBuffer, ErrorsNameTheValue) {
  for (std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{8192}}) {
    const auto refused = GuardedBuffer::make(10, alignment);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::bad_input);
    EXPECT_THAT(refused.error().message, HasSubstr("alignment = " + std::to_string(alignment)));
  }
  for (std::size_t bytes : {std::size_t{1} << 60, ~std::size_t{0}}) {
    const auto refused = GuardedBuffer::make(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::device);
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(bytes)));
  }
}

TEST(Poison, IsNanForFloatsAndRecognisedForAll) {
  for (const DTypeInfo& type : kDTypes) {
    if (type.bits < 8) continue;  // no NaN, no addresses, and never the type of an output
    auto buffer = GuardedBuffer::make(static_cast<std::size_t>(5 * size_of(type.type)));
    ASSERT_TRUE(buffer);
    poison(type.type, {buffer->data(), buffer->size()});
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(is_poison(type.type, buffer->data(), i)) << type.name;
      if (type.floating) {
        EXPECT_TRUE(std::isnan(load_element(type.type, buffer->data(), i))) << type.name;
      }
    }
    // Formats with one NaN have no other to tell it from.
    const bool one_nan = type.type == DType::fp8_e4m3 || type.type == DType::fp8_e4m3fnuz ||
                         type.type == DType::fp8_e5m2fnuz;
    store_element(type.type, buffer->data(), 3, type.floating && !one_nan ? std::nan("") : 1);
    EXPECT_FALSE(is_poison(type.type, buffer->data(), 3))
        << type.name << ": not every NaN is poison";
    EXPECT_TRUE(is_poison(type.type, buffer->data(), 4)) << type.name;
    EXPECT_EQ(buffer->damage(), std::nullopt);
  }
}

TEST(Poison, FillsATailShorterThanAnElement) {
  std::byte bytes[12] = {};
  poison(fp64, {bytes, 11});
  EXPECT_TRUE(is_poison(fp64, bytes, 0));
  EXPECT_NE(bytes[10], std::byte{0});
  EXPECT_EQ(bytes[11], std::byte{0});
}

}  // namespace kiln::buffers_test
