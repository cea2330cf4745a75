// Runs a fuzz entry function without libFuzzer: every kept input, then seeded mutations of them, so
// many of each or for so long as the command line says. An input that kills the process is kept in
// a file, which --input runs again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/entry.h"
#include "support/paths.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using kiln::test::kFuzzEntry;

struct Settings {
  double seconds = 0;  // 0: kFuzzEntry.mutations of each kept input
  std::uint64_t seed = 20240607;
  std::string input;
};
Settings settings;
std::uint64_t inputs_run = 0;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

fs::path corpus_folder() {
  return fs::path(kiln::test::source_dir()) / "tests/fuzz/corpus" / kFuzzEntry.corpus;
}

std::vector<std::string> corpus() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(corpus_folder())) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) inputs.push_back(read(path));
  return inputs;
}

/// Runs inputs; one that kills the process is written out first, so that the crash can be repeated.
class Attempt {
 public:
  Attempt() {
    path_ = fs::temp_directory_path() / ("kiln-fuzz-" + std::to_string(getpid()));
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, keep);
  }

  void operator()(const std::string& input) {
    input_ = &input;
    ++inputs_run;
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()),
        0);
  }

 private:
  static void keep(int signal) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    (void)!write(file, input_->data(), input_->size());
    static const char kWords[] = "\nthe input that did this is kept in ";
    (void)!write(STDERR_FILENO, kWords, sizeof kWords - 1);
    (void)!write(STDERR_FILENO, path_.c_str(), path_.native().size());
    (void)!write(STDERR_FILENO, "\n", 1);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  inline static fs::path path_;
  inline static const std::string* input_ = nullptr;
};

std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

std::string mutate(std::string input, const std::vector<std::string>& others,
                   std::mt19937_64& random) {
  static const std::vector<std::string> hostile = {"-1",
                                                   "0",
                                                   "9223372036854775807",
                                                   "99999999999999999999",
                                                   "1e9",
                                                   "=",
                                                   "==",
                                                   " ",
                                                   "\n",
                                                   "#",
                                                   std::string(1, '\0'),
                                                   "\xff\xfe",
                                                   "nan",
                                                   "%s%n",
                                                   "../",
                                                   "'; --"};
  const int steps = 1 + static_cast<int>(below(random, 4));
  for (int i = 0; i < steps; ++i) {
    const std::size_t at = below(random, input.size() + 1);
    switch (below(random, 5)) {
      case 0:
        input.insert(at, hostile[below(random, hostile.size())]);
        break;
      case 1:
        input.erase(at, 1 + below(random, 8));
        break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(random());
        break;
      case 3:
        if (at < input.size()) input[at] ^= static_cast<char>(1u << below(random, 8));
        break;
      default: {  // splice: the head of this input, the tail of another
        const auto& other = others[below(random, others.size())];
        input = input.substr(0, at) + other.substr(below(random, other.size() + 1));
      }
    }
  }
  return input;
}

TEST(Fuzz, KeptInputs) {
  Attempt attempt;
  if (!settings.input.empty()) {
    ASSERT_TRUE(fs::is_regular_file(settings.input)) << settings.input;
    return attempt(read(settings.input));
  }
  const auto inputs = corpus();
  ASSERT_FALSE(inputs.empty()) << corpus_folder();
  attempt("");
  for (const auto& input : inputs) attempt(input);
}

TEST(Fuzz, SeededMutations) {
  if (!settings.input.empty()) return;
  const auto inputs = corpus();
  ASSERT_FALSE(inputs.empty()) << corpus_folder();
  std::mt19937_64 random(settings.seed);
  Attempt attempt;
  if (settings.seconds == 0) {
    for (const auto& input : inputs)
      for (int i = 0; i < kFuzzEntry.mutations; ++i) attempt(mutate(input, inputs, random));
    return;
  }
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(settings.seconds);
  while (std::chrono::steady_clock::now() < end && !testing::Test::HasFailure())
    attempt(mutate(inputs[below(random, inputs.size())], inputs, random));
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Runs kept inputs and mutations of them.");
  app.add_option("--seconds", settings.seconds, "Time for mutations")->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "Seed of the mutations")->capture_default_str();
  app.add_option("--input", settings.input, "Run this file alone");
  CLI11_PARSE(app, argc, argv);
  const int status = RUN_ALL_TESTS();
  std::printf("%s: %llu inputs; seed %llu; %d failures\n", kFuzzEntry.name,
              static_cast<unsigned long long>(inputs_run),
              static_cast<unsigned long long>(settings.seed), status == 0 ? 0 : 1);
  return status;
}
