#include "runtime/cpu/compile_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <thread>

#include "runtime/cpu/host_compiler.h"
#include "runtime/fork_gate.h"
#include "runtime/frames.h"
#include "runtime/quiet_lock.h"
#include "runtime/work_counts.h"
#include "runtime/worker_program.h"

namespace kiln {
namespace {

using Texts = std::vector<std::string>;

std::vector<std::string_view> views_of(const Texts& texts) { return {texts.begin(), texts.end()}; }

// A request: what is wanted, the file's name, the source, the flags. An answer: kMade and what was
// made (image, log and resources; a text; at the start the version), or kFailed, the code and the
// message of the error.
constexpr std::string_view kImage = "image", kAssembly = "assembly";
constexpr std::string_view kMade = "made", kFailed = "failed";
constexpr std::size_t kTextsOfImage = 8, kTextsOfAssembly = 2, kTextsOfError = 3;

Texts failed(const Error& error) {
  return {std::string(kFailed), std::to_string(static_cast<int>(error.code)), error.message};
}

/// Whether an answer is one: a process that dies may send anything.
bool is_whole(const Texts& answer, std::size_t texts) {
  if (answer.empty()) return false;
  return answer.size() == (answer[0] == kMade ? texts : kTextsOfError);
}

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Error error_in(const Texts& answer) {
  return {static_cast<ErrorCode>(number_in(answer.at(1))), answer.at(2)};
}

Texts request_of(std::string_view wanted, const Source& source) {
  Texts request{std::string(wanted), source.file_name, source.text};
  request.insert(request.end(), source.flags.begin(), source.flags.end());
  return request;
}

Texts answer_of(Compiler& compiler, Texts request) {
  Source source{.text = std::move(request.at(2)), .file_name = std::move(request.at(1))};
  source.flags.assign(request.begin() + 3, request.end());
  if (request[0] == kAssembly) {
    auto text = compiler.assembly(source);
    if (!text) return failed(text.error());
    return {std::string(kMade), std::move(*text)};
  }
  auto binary = compiler.compile(source);
  if (!binary) return failed(binary.error());
  const auto* bytes = reinterpret_cast<const char*>(binary->image.data());
  const ResourceReport& r = binary->resources;
  return {std::string(kMade),
          std::string(bytes, binary->image.size()),
          binary->log,
          std::to_string(r.code_bytes),
          std::to_string(r.stack_bytes),
          std::to_string(r.registers),
          std::to_string(r.spills),
          std::to_string(r.shared_bytes)};
}

Binary binary_in(const Texts& answer) {
  Binary binary;
  const auto* bytes = reinterpret_cast<const std::byte*>(answer.at(1).data());
  binary.image.assign(bytes, bytes + answer[1].size());
  binary.log = answer.at(2);
  binary.resources = {.code_bytes = number_in(answer.at(3)),
                      .stack_bytes = number_in(answer.at(4)),
                      .registers = number_in(answer.at(5)),
                      .spills = number_in(answer.at(6)),
                      .shared_bytes = number_in(answer.at(7))};
  return binary;
}

std::atomic<int> servers_started{0};

/// The client's end of one server. A forked child's copy is not used: that server is its parent's.
struct Server {
  Fd control;
  std::string version;
  pid_t client = ::getpid();
};

class CompileClient final : public Compiler {
 public:
  CompileClient(std::filesystem::path worker, Texts paths)
      : worker_(std::move(worker)), paths_(std::move(paths)) {}

  /// Errors: as open_compile_server().
  Status open() {
    const QuietLock lock(mutex_);
    auto started = start();
    if (!started) return tl::unexpected(started.error());
    version_ = (*started)->version;
    shared_ = std::move(*started);
    return {};
  }
  Result<Binary> compile(const Source& source) override { return compile_unless({}, source); }
  Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) override {
    const auto answer = ask(request_of(kImage, source), source, kTextsOfImage, stop);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->at(0) != kMade) return tl::unexpected(error_in(*answer));
    return binary_in(*answer);
  }
  Result<std::string> assembly(const Source& source) override {
    const auto answer = ask(request_of(kAssembly, source), source, kTextsOfAssembly);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->at(0) != kMade) return tl::unexpected(error_in(*answer));
    return answer->at(1);
  }
  std::string version() const override { return version_; }

 private:
  using SharedServer = std::shared_ptr<const Server>;

  /// No other thread forks meanwhile: its child would hold the server's end of a connection, whose
  /// end would then not be seen.
  Result<SharedServer> start() const {
    const ForkGate gate;
    auto pair = socket_pair();
    if (!pair) return tl::unexpected(pair.error());
    const auto pid = start_worker(worker_, kCompileServerArgument, std::array{pair->theirs.get()});
    if (!pid) return tl::unexpected(pid.error());
    ++servers_started;
    pair->theirs = Fd();
    // It leaves the work to a child, so that this process has none to wait for.
    while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    send_frame(pair->ours.get(), views_of(paths_));
    const auto answer = receive_frame(pair->ours.get());
    if (!answer || !is_whole(*answer, kTextsOfAssembly))
      return fail(ErrorCode::device,
                  fmt::format("{}: the compiler's process ended at its start", worker_.string()));
    if (answer->at(0) != kMade) return tl::unexpected(error_in(*answer));
    return std::make_shared<Server>(std::move(pair->ours), answer->at(1));
  }

  Result<SharedServer> shared() {
    const QuietLock lock(mutex_);
    if (shared_ != nullptr && shared_->client == ::getpid()) return shared_;
    auto started = start();
    if (started) shared_ = *started;
    return started;
  }

  void forget(const SharedServer& ended) {
    const QuietLock lock(mutex_);
    if (shared_ == ended) shared_ = nullptr;
  }

  /// A connection of one compile; the end of a server that takes none is seen by who reads from it.
  /// Errors: device.
  static Result<Fd> connect(const Server& server) {
    const ForkGate gate;  // as in start()
    auto pair = socket_pair();
    if (!pair) return tl::unexpected(pair.error());
    send_descriptor(server.control.get(), pair->theirs.get());
    return std::move(pair->ours);
  }

  /// Waits for an answer, or the end of the server; false: `stop` came first.
  static bool answered(int socket, const std::stop_token& stop) {
    if (!stop.stop_possible()) return true;
    constexpr int kAskedMs = 20;
    pollfd waiting{socket, POLLIN, 0};
    while (!stop.stop_requested())
      if (::poll(&waiting, 1, kAskedMs) > 0) return true;
    return false;
  }

  /// The answer, of `texts` texts where something was made. Errors: compiler, device.
  Result<Texts> ask(const Texts& request, const Source& source, std::size_t texts,
                    const std::stop_token& stop = {}) {
    count_work(Work::clang);
    // Where a server ends, only the one compile that ends another one by itself is to blame.
    for (const bool alone : {false, true}) {
      const auto server = alone ? start() : shared();
      if (!server) return tl::unexpected(server.error());
      const auto connection = connect(**server);
      if (!connection) return tl::unexpected(connection.error());
      if (send_frame(connection->get(), views_of(request))) {
        if (!answered(connection->get(), stop)) {
          // It ends with its last client, and the compile with it.
          forget(*server);
          return fail(ErrorCode::compiler, fmt::format("{}: stopped", source.file_name));
        }
        if (auto answer = receive_frame(connection->get()); answer && is_whole(*answer, texts))
          return std::move(*answer);
      }
      if (!alone) forget(*server);
    }
    return fail(ErrorCode::compiler,
                fmt::format("{}: the compiler's process ended: no memory was left, or it crashed",
                            source.file_name));
  }

  const std::filesystem::path worker_;
  const Texts paths_;
  std::string version_;
  std::mutex mutex_;  // of shared_
  SharedServer shared_;
};

// Between searches a server waits so long for the next compile.
constexpr int kPatienceMs = 10'000;

}  // namespace

int compile_servers_started() { return servers_started; }

Result<std::unique_ptr<Compiler>> open_compile_server(const std::filesystem::path& worker,
                                                      const std::vector<std::string>& paths) {
  auto client = std::make_unique<CompileClient>(worker, paths);
  if (Status ok = client->open(); !ok) return tl::unexpected(ok.error());
  return client;
}

void serve_compiles() {
  const auto paths = receive_frame(kCompileServerFd);
  if (!paths) return;
  const auto compiler = open_host_compiler(*paths);
  const Texts hello =
      compiler ? Texts{std::string(kMade), (*compiler)->version()} : failed(compiler.error());
  if (!send_frame(kCompileServerFd, views_of(hello)) || !compiler) return;
  std::atomic<int> working{0};
  for (;;) {
    pollfd client{kCompileServerFd, POLLIN, 0};
    const int ready = ::poll(&client, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && working > 0) continue;
    if (ready <= 0) return;
    auto connection = receive_descriptor(kCompileServerFd);
    if (!connection) return;
    ++working;
    std::thread([&compiler, &working, socket = std::move(*connection)] {
      if (auto request = receive_frame(socket.get()); request && request->size() >= 3)
        send_frame(socket.get(), views_of(answer_of(**compiler, std::move(*request))));
      --working;
    }).detach();
  }
}

}  // namespace kiln
