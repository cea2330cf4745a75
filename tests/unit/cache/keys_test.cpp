// Every field of every key type changes the key. The field lists are the table of
// generator/problem/fields.h and the structured bindings of cache/keys.h, so a new field cannot be
// left out.
#include "cache/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/fields.h"

namespace kiln::keys_test {

/// Another value than the one it has.
template <typename T>
void change(T& field) {
  if constexpr (std::is_same_v<T, std::string>)
    field += "x";
  else if constexpr (std::is_same_v<T, bool>)
    field = !field;
  else if constexpr (std::is_same_v<T, Vendor>)
    field = field == Vendor::cpu ? Vendor::amd : Vendor::cpu;
  else if constexpr (std::is_enum_v<T>)
    field = static_cast<T>((static_cast<std::size_t>(field) + 1) % EnumNames<T>::names.size());
  else
    field += 1;
}

/// Changes the `index`-th field that the visitor shows; false when there are fewer.
struct ChangeOne {
  int index;
  int seen = 0;
  std::string name = {};
  template <typename T>
  void operator()(std::string_view field_name, T& field) {
    if (seen++ != index) return;
    name = field_name;
    change(field);
  }
};

BestKey some_key() {
  BestKey key;
  key.device.arch = "x86-64-v4";
  key.device.model = "a model";
  key.gemm = Gemm::row_major(3, 5, 7);
  key.policy = "cold-v1";
  return key;
}

TEST(BestKey, EveryFieldOfTheProblemChangesIt) {
  for (const GemmField& field : kGemmFields) {
    bool changed = false;
    for (const Gemm& base : test::bases_of_fields()) {
      const auto other = test::with_next_value(base, field);
      if (!other) continue;
      changed = true;
      BestKey key = some_key(), next = some_key();
      key.gemm = base, next.gemm = *other;
      EXPECT_NE(key_text(key), key_text(next)) << field.name;
      EXPECT_NE(key_text(base), key_text(*other)) << field.name;
    }
    EXPECT_TRUE(changed) << field.name;
  }
}

TEST(BestKey, EveryFieldOfTheDeviceChangesIt) {
  std::set<std::string> texts{key_text(some_key())}, prints{fingerprint(some_key().device)};
  int i = 0;
  for (;; ++i) {
    BestKey key = some_key();
    ChangeOne one{i};
    for_each_device_field(key.device, one);
    if (one.name.empty()) break;
    EXPECT_TRUE(texts.insert(key_text(key)).second) << one.name;
    EXPECT_TRUE(prints.insert(fingerprint(key.device)).second) << one.name;
  }
  EXPECT_EQ(i, 25);
}

TEST(BestKey, PolicyAndDeterminismChangeIt) {
  BestKey policy = some_key(), determinism = some_key();
  policy.policy = "cold-v2";
  determinism.determinism = Determinism::any;
  EXPECT_NE(key_text(policy), key_text(some_key()));
  EXPECT_NE(key_text(determinism), key_text(some_key()));
  EXPECT_NE(key_text(determinism), key_text(policy));
}

TEST(Validators, EveryFieldChangesTheirText) {
  std::set<std::string> texts{key_text(Validators{})};
  int i = 0;
  for (;; ++i) {
    Validators validators;
    ChangeOne one{i};
    for_each_validator_field(validators, one);
    if (one.name.empty()) break;
    EXPECT_TRUE(texts.insert(key_text(validators)).second) << one.name;
  }
  EXPECT_EQ(i, 3);
}

TEST(KeyText, NoValueImitatesAnotherField) {
  BestKey one = some_key(), other = some_key();
  one.device.arch = "a;model=b";
  one.device.model = "c";
  other.device.arch = "a";
  other.device.model = "b;model=c";
  EXPECT_NE(key_text(one), key_text(other));
}

TEST(ClassText, ForgetsSizesAndPitchesOnly) {
  const Gemm base = Gemm::row_major(3, 5, 7);
  Gemm larger = Gemm::row_major(100, 200, 300).batched(4);
  larger.a.ld = 512;
  larger.d.batch_stride = 1 << 20;
  EXPECT_EQ(class_text(larger), class_text(base));
  for (const Gemm& other :
       {base.transpose_a(), base.output(bf16), base.with_packed_b(), base.with_bias(Bias::per_row),
        base.with_residual(), base.with_activation(Activation::relu), Gemm::column_major(3, 5, 7)})
    EXPECT_NE(class_text(other), class_text(base)) << text(other);
}

TEST(Normalised, TightPitchesAreOneProblem) {
  Gemm spelt = Gemm::row_major(3, 5, 7);
  spelt.a.ld = 7, spelt.b.ld = 5, spelt.c.ld = 5, spelt.d.ld = 5;
  spelt.a.batch_stride = 12345;  // one batch has no stride
  EXPECT_EQ(normalised(spelt), Gemm::row_major(3, 5, 7));

  Gemm batched = Gemm::row_major(3, 5, 7).batched(2);
  batched.a.batch_stride = 21, batched.d.batch_stride = 15;
  EXPECT_EQ(normalised(batched), Gemm::row_major(3, 5, 7).batched(2));

  Gemm padded = Gemm::row_major(3, 5, 7).batched(2);
  padded.a.ld = 8, padded.d.batch_stride = 16;
  EXPECT_EQ(normalised(padded), padded);
}

}  // namespace kiln::keys_test
