// kiln.h from C99 (c_api_user.c) and its promises about threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "engine/c_values.h"
#include "kiln/engine.hpp"
#include "kiln/kiln.h"
#include "support/temp_dir.h"

extern "C" int use_kiln_from_c(const char* database);
extern "C" int use_kiln_with_older_header(const char* database);
extern "C" int use_kiln_with_newer_header(const char* database);

namespace kiln::c_api_test {

TEST(CApi, ACProgramRuns) {
  TempDir dir;
  EXPECT_EQ(use_kiln_from_c((dir / "kiln.db").c_str()), 0);
}

TEST(CApi, AProgramOfAnOlderHeaderRunsAndIsNotWrittenBeyondItsStructs) {
  TempDir dir;
  EXPECT_EQ(use_kiln_with_older_header((dir / "kiln.db").c_str()), 0);
}

TEST(CApi, AProgramOfANewerHeaderRunsUnlessItUsesWhatIsNew) {
  TempDir dir;
  EXPECT_EQ(use_kiln_with_newer_header((dir / "kiln.db").c_str()), 0);
}

TEST(CApi, ComputesAListOfProducts) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 40, 40, 40, KILN_FP32);
  desc.grouping = KILN_GROUPING_LIST;
  desc.batch = 3;
  const std::vector<float> a(1600, 1), b(1600, 2);
  std::vector<float> d(3200, -1);
  kiln_list_entry list[3] = {};
  list[0].m = 33, list[0].n = 7, list[0].k = 40;
  list[2].m = 2, list[2].n = 40, list[2].k = 5, list[2].ldd = 50;
  for (int i : {0, 2}) {
    list[i].a = a.data(), list[i].b = b.data();
    list[i].d = d.data() + i * 1000;
  }
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.list = list;
  // The first call compiles a kernel, or finds none and takes the plain loop.
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
    EXPECT_EQ(d[0], 80);
    EXPECT_EQ(d[33 * 7 - 1], 80);
    EXPECT_EQ(d[33 * 7], -1);
    EXPECT_EQ(d[2000], 10);
    EXPECT_EQ(d[2040], -1) << "between lines";
    EXPECT_EQ(d[2089], 10);
  }
  list[2].k = 41;
  EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
  EXPECT_EQ(std::string(kiln_last_error()),
            "list[2].k = 41: must be 0 to 40, as large as the problem's");
  kiln_close(engine);
}

TEST(CApi, ComputesAListWithScalesAndAGate) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 8, 8, 16, KILN_S8);
  desc.grouping = KILN_GROUPING_LIST;
  desc.batch = 2;
  desc.c.dtype = desc.d.dtype = KILN_FP32;
  desc.scale_a = KILN_SCALE_LINE;
  desc.scale_b = KILN_SCALE_TENSOR;
  desc.gate = KILN_GATE_RELU;
  const std::vector<std::int8_t> a(128, 1), b(256, 2);
  const std::vector<float> rows{1, 2, 3, 4, 5, 6, 7, 8}, tensor{0.5F, -0.25F};
  std::vector<float> d(128, -1);
  kiln_list_entry list[2] = {};
  list[0].m = 8, list[0].n = 3, list[0].k = 16;
  list[1].m = 2, list[1].n = 8, list[1].k = 5;
  for (int i = 0; i < 2; ++i) {
    list[i].a = a.data(), list[i].b = b.data(), list[i].d = d.data() + i * 64;
    list[i].scale_a = rows.data() + i, list[i].scale_b = tensor.data() + i;
  }
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.list = list;
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
    EXPECT_EQ(d[0], 16 * 16);
    EXPECT_EQ(d[23], 128 * 128);
    EXPECT_EQ(d[24], -1);
    EXPECT_EQ(d[64], 0) << "the gate of a negative value";
  }
  list[1].scale_b = nullptr;
  EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
  EXPECT_TRUE(std::string(kiln_last_error()).starts_with("list[1].scale_b = null"));
  kiln_close(engine);
}

TEST(CApi, ErrorsNameTheFieldsOfItsHeader) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_operands operands;
  kiln_operands_init(&operands);
  const auto refuses = [&](const std::string& words, const auto& spoil) {
    kiln_gemm_desc desc;
    kiln_gemm_desc_init(&desc, 8, 8, 8, KILN_FP32);
    spoil(desc);
    EXPECT_NE(kiln_gemm(engine, &desc, &operands), KILN_OK);
    const std::string message = kiln_last_error();
    EXPECT_TRUE(message.starts_with(words)) << message;
    for (const char* of_cpp : {"lda", "ldb", "ldc", "ldd", "stride_", "epilogue."})
      EXPECT_EQ(message.find(of_cpp), std::string::npos) << message;
  };
  refuses("a.ld = 1:", [](kiln_gemm_desc& x) { x.a.ld = 1; });
  refuses("b.ld = -1:", [](kiln_gemm_desc& x) { x.b.ld = -1; });
  refuses("c.ld = 1:", [](kiln_gemm_desc& x) { x.c.ld = 1; });
  refuses("d.ld = 7:", [](kiln_gemm_desc& x) { x.d.ld = 7; });
  refuses("a.batch_stride = -1:", [](kiln_gemm_desc& x) { x.a.batch_stride = -1; });
  refuses("b.batch_stride = -1:", [](kiln_gemm_desc& x) { x.b.batch_stride = -1; });
  refuses("d.batch_stride = 1:", [](kiln_gemm_desc& x) { x.batch = 2, x.d.batch_stride = 1; });
  refuses("bias_as_d = true: bias = none", [](kiln_gemm_desc& x) { x.bias_as_d = 1; });
  refuses("gate_order = ", [](kiln_gemm_desc& x) { x.gate_order = KILN_GATE_INTERLEAVED; });
  refuses("gate = silu: activation = relu", [](kiln_gemm_desc& x) {
    x.gate = KILN_GATE_SILU;
    x.activation = KILN_RELU;
  });
  kiln_close(engine);
}

TEST(CApi, TheWordsOfAProblemAsTextAndOfListEntriesStay) {
  EXPECT_EQ(in_words_of_c("lda = 1: fp32 N N 8 8 8 lda=9 stride_b=70 epilogue=relu"),
            "a.ld = 1: fp32 N N 8 8 8 lda=9 stride_b=70 epilogue=relu");
  EXPECT_EQ(in_words_of_c("list[3].lda = 1: must be 0 (tight) or at least 8"),
            "list[3].lda = 1: must be 0 (tight) or at least 8");
  EXPECT_EQ(in_words_of_c("ldda, xlda: no, epilogue.bias. ldb"), "ldda, xlda: no, bias. b.ld");
  EXPECT_EQ(in_words_of_c(""), "");
}

/// By field: every enumerator of every struct, below and above its range and beyond a byte.
TEST(CApi, EnumeratorsThatDoNotExistAreNamedAsGiven) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_operands operands;
  kiln_operands_init(&operands);
  kiln_gemm_desc good;
  kiln_gemm_desc_init(&good, 2, 3, 4, KILN_FP32);
  const auto refuses = [&](std::size_t offset, int value, const std::string& field) {
    kiln_gemm_desc desc = good;
    std::memcpy(reinterpret_cast<char*>(&desc) + offset, &value, sizeof value);
    EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
    const std::string message = kiln_last_error();
    EXPECT_TRUE(message.starts_with(field + " = " + std::to_string(value) + ": no such"))
        << message;
  };
  for (const int value : {-1, 17, 255, 256, 1 << 30, std::numeric_limits<int>::min()}) {
    refuses(offsetof(kiln_gemm_desc, a.dtype), value, "a.dtype");
    refuses(offsetof(kiln_gemm_desc, b.dtype), value, "b.dtype");
    refuses(offsetof(kiln_gemm_desc, c.dtype), value, "c.dtype");
    refuses(offsetof(kiln_gemm_desc, d.dtype), value, "d.dtype");
    refuses(offsetof(kiln_gemm_desc, d.order), value, "d.order");
    refuses(offsetof(kiln_gemm_desc, accumulator), value, "accumulator");
    refuses(offsetof(kiln_gemm_desc, bias), value, "bias");
    refuses(offsetof(kiln_gemm_desc, activation), value, "activation");
    refuses(offsetof(kiln_gemm_desc, scale_a), value, "scale_a");
    refuses(offsetof(kiln_gemm_desc, scale_b), value, "scale_b");
    kiln_gemm_desc desc;
    kiln_gemm_desc_init_sized(&desc, sizeof desc, 2, 3, 4, value);
    EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_BAD_INPUT);
    EXPECT_EQ(kiln_last_error(), "a.dtype = " + std::to_string(value) + ": no such type");
    std::memcpy(&options.policy, &value, sizeof value);
    kiln_engine* other = nullptr;
    EXPECT_EQ(kiln_open(&options, &other), KILN_BAD_INPUT);
    EXPECT_EQ(kiln_last_error(), "options->policy = " + std::to_string(value) + ": no such policy");
  }
  kiln_close(engine);
}

TEST(CApi, ARangeIsTunedPlannedAndRun) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  options.threads = 1;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 0, 64, 48, KILN_FP32);
  kiln_tune_report report;
  kiln_tune_report_init(&report);
  ASSERT_EQ(kiln_tune_range(engine, &desc, KILN_SIZE_M, 30, 32, 2, 0, &report), KILN_OK)
      << kiln_last_error();
  EXPECT_EQ(report.stored, 1);
  EXPECT_TRUE(std::string(report.config).ends_with(" kernels")) << report.config;
  kiln_range_plan* plan = nullptr;
  ASSERT_EQ(kiln_range_plan_make(engine, &desc, KILN_SIZE_M, 30, 32, 0, &plan), KILN_OK)
      << kiln_last_error();
  kiln_close(engine);
  EXPECT_EQ(kiln_range_plan_workspace_bytes(plan), 0);
  const std::vector<float> a(32 * 48, 1), b(48 * 64, 2);
  std::vector<float> d(32 * 64, -1);
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = a.data();
  operands.b = b.data();
  operands.d = d.data();
  ASSERT_EQ(kiln_range_plan_run(plan, 31, &operands), KILN_OK) << kiln_last_error();
  EXPECT_EQ(d[0], 96);
  EXPECT_EQ(d[31 * 64 - 1], 96);
  EXPECT_EQ(d[31 * 64], -1) << "a row that this size has not";
  EXPECT_EQ(kiln_range_plan_run(plan, 33, &operands), KILN_BAD_INPUT);
  EXPECT_EQ(std::string(kiln_last_error()), "m = 33: must be of the plan's range, 30 to 32");
  kiln_range_plan_free(plan);
  kiln_range_plan_free(nullptr);
}

/// What callbacks of C were told.
struct Told {
  int progress = 0, asked = 0;
  bool done = false;
  std::vector<std::string> untuned, messages;
};

TEST(CApi, TuningHasSeedForceProgressAndCancel) {
  TempDir dir;
  Told told;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  options.threads = 1;
  options.on_untuned = [](void* user, const char* problem) {
    static_cast<Told*>(user)->untuned.emplace_back(problem);
  };
  options.untuned_user = &told;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 32, 48, 40, KILN_FP32);
  kiln_tune_options tuning;
  kiln_tune_options_init(&tuning);
  EXPECT_EQ(tuning.seed, 1u);
  tuning.candidates = 8;
  tuning.seconds = 86400;  // clock: no machine meets a budget of a day
  tuning.user = &told;
  tuning.progress = [](void* user, const kiln_progress* state) {
    auto& told = *static_cast<Told*>(user);
    ++told.progress;
    told.done |= state->stage == KILN_STAGE_DONE && state->best_ns > 0 &&
                 std::string(state->best_config).starts_with("host_");
  };
  kiln_tune_report report;
  kiln_tune_report_init(&report);
  ASSERT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_OK) << kiln_last_error();
  EXPECT_GT(told.progress, 2);
  EXPECT_TRUE(told.done);
  ASSERT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_OK);
  EXPECT_EQ(report.already_tuned, 1);
  tuning.force = 1;
  tuning.seed = 7;
  ASSERT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_OK);
  EXPECT_EQ(report.already_tuned, 0);
  EXPECT_EQ(report.joules, 0);
  tuning.policy = KILN_TUNING_AUTOMATIC;
  ASSERT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_OK) << kiln_last_error();
  tuning.policy = KILN_TUNING_SUSTAINED;
  EXPECT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_UNSUPPORTED);
  EXPECT_THAT(kiln_last_error(), testing::HasSubstr("policy = sustained: kernels on cpu"));
  const int unknown = 7;
  std::memcpy(&tuning.policy, &unknown, sizeof unknown);
  EXPECT_EQ(kiln_tune_with(engine, &desc, &tuning, &report), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), testing::HasSubstr("options->policy = 7"));
  tuning.policy = KILN_TUNING_COOL;
  // Cancelled at once, a problem without a record has no winner.
  tuning.cancelled = [](void* user) { return ++static_cast<Told*>(user)->asked; };
  desc.m = 33;
  EXPECT_NE(kiln_tune_with(engine, &desc, &tuning, nullptr), KILN_OK);
  EXPECT_GT(told.asked, 0);
  const std::vector<float> a(33 * 40, 1), b(40 * 48, 1);
  std::vector<float> d(33 * 48);
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = a.data(), operands.b = b.data(), operands.d = d.data();
  ASSERT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  EXPECT_EQ(d.back(), 40);
  ASSERT_EQ(told.untuned.size(), 1u);
  EXPECT_TRUE(told.untuned[0].find("33 48 40") != std::string::npos) << told.untuned[0];
  tuning.size = 3;
  EXPECT_EQ(kiln_tune_with(engine, &desc, &tuning, nullptr), KILN_BAD_INPUT);
  EXPECT_TRUE(std::string(kiln_last_error()).starts_with("options->size = 3")) << kiln_last_error();
  kiln_close(engine);
}

TEST(CApi, MessagesGoToACallback) {
  Told told;
  const kiln_log_callback hear = [](void* user, kiln_log_level level, const char* message) {
    static_cast<Told*>(user)->messages.push_back(std::to_string(level) + " " + message);
  };
  TempDir dir;
  const std::string file = (dir / "kiln.db").string();
  kiln_options options;
  kiln_options_init(&options);
  options.database = file.c_str();
  options.threads = 1;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK);
  kiln_set_log(hear, &told);
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 5, 6, 7, KILN_FP64);
  const std::vector<double> a(35, 1), b(42, 1);
  std::vector<double> d(30);
  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = a.data(), operands.b = b.data(), operands.d = d.data();
  EXPECT_EQ(kiln_gemm(engine, &desc, &operands), KILN_OK) << kiln_last_error();
  kiln_set_log(nullptr, nullptr);
  kiln_close(engine);
  ASSERT_EQ(told.messages.size(), 1u);
  EXPECT_TRUE(told.messages[0].starts_with("2 ")) << told.messages[0];
  EXPECT_TRUE(told.messages[0].find("5 6 7") != std::string::npos) << told.messages[0];
  EXPECT_EQ(kiln_set_log_level(static_cast<kiln_log_level>(9)), KILN_BAD_INPUT);
  EXPECT_EQ(std::string(kiln_last_error()), "level = 9: no such level of messages");
}

TEST(CApi, ARangeThatIsNoneIsRefused) {
  kiln_options options;
  kiln_options_init(&options);
  options.database = ":memory:";
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 5, 6, 7, KILN_FP32);
  kiln_range_plan* plan = nullptr;
  const auto why = [&](int size, int64_t first, int64_t last) {
    EXPECT_EQ(
        kiln_range_plan_make(engine, &desc, static_cast<kiln_size>(size), first, last, 0, &plan),
        KILN_BAD_INPUT);
    EXPECT_EQ(plan, nullptr);
    return std::string(kiln_last_error());
  };
  EXPECT_EQ(why(KILN_SIZE_N, 9, 3), "n = 9..3: the range is reversed");
  EXPECT_EQ(why(KILN_SIZE_K, 0, 3), "k = 0..3: a range begins at 1 or more");
  EXPECT_EQ(why(3, 1, 3), "size = 3: no such size");
  EXPECT_EQ(why(-1, 1, 3), "size = -1: no such size");
  kiln_close(engine);
}

TEST(CApi, TheLastErrorIsTheThreadsOwn) {
  EXPECT_EQ(kiln_open(nullptr, nullptr), KILN_BAD_INPUT);
  const std::string mine = kiln_last_error();
  EXPECT_NE(mine, "");
  std::thread([] {
    EXPECT_STREQ(kiln_last_error(), "");
    EXPECT_EQ(kiln_gemm(nullptr, nullptr, nullptr), KILN_BAD_INPUT);
  }).join();
  EXPECT_EQ(kiln_last_error(), mine);
}

TEST(CApi, EveryDtypeStartsAsInCpp) {
  for (int t = KILN_FP32; t <= KILN_U8; ++t) {
    kiln_gemm_desc desc;
    kiln_gemm_desc_init(&desc, 2, 3, 4, static_cast<kiln_dtype>(t));
    const Gemm gemm = Gemm::row_major(2, 3, 4, static_cast<DType>(t));
    EXPECT_EQ(desc.b.dtype, static_cast<int>(gemm.b.dtype));
    EXPECT_EQ(desc.d.dtype, static_cast<int>(gemm.d.dtype));
    EXPECT_EQ(desc.accumulator, static_cast<int>(gemm.accumulator));
    EXPECT_EQ(desc.alignment, 1);
  }
}

TEST(CApi, StatusesAreNamed) {
  EXPECT_STREQ(kiln_status_name(KILN_INTERNAL), "internal");
  EXPECT_STREQ(kiln_version(), std::string(version()).c_str());
}

}  // namespace kiln::c_api_test
