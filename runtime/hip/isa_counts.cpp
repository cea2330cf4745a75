#include "runtime/hip/isa_counts.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <optional>

namespace kiln::hip {
namespace {

std::string_view trimmed(std::string_view s) {
  const auto begin = s.find_first_not_of(" \t");
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\r") - begin + 1);
}

/// Lines without comments, directives and emptiness: labels end in a colon, the rest is code.
std::vector<std::string_view> code_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = trimmed(text.substr(0, std::min(text.substr(0, end).find(';'), end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || (line[0] == '.' && !line.ends_with(':'))) continue;
    lines.push_back(line);
  }
  return lines;
}

bool starts_with_any(std::string_view word, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return word.starts_with(prefix); });
}

/// What an instruction does; the letters are those of LoopCounts::order.
enum class Kind : char {
  matrix = 'M',
  shared_read = 'R',
  shared_write = 'W',
  load = 'L',
  direct_load = 'D',  // straight into shared memory
  store = 'S',
  barrier = 'B',
  wait = 'w',
  spill = 'x',
  vector = 'v',
  scalar = 'c'
};

Kind kind_of(std::string_view line) {
  const auto word = line.substr(0, line.find_first_of(" \t"));
  const auto has = [word](std::string_view part) { return word.find(part) != word.npos; };
  if (starts_with_any(word, {"v_mfma", "v_smfmac", "v_wmma"})) return Kind::matrix;
  if (word.starts_with("ds_"))
    return has("read") || has("load") ? Kind::shared_read : Kind::shared_write;
  if (word.starts_with("scratch_")) return Kind::spill;
  if (starts_with_any(word, {"buffer_", "global_", "flat_"})) {
    if (!has("load")) return Kind::store;
    return line.ends_with(" lds") || has("_lds_") ? Kind::direct_load : Kind::load;
  }
  if (starts_with_any(word, {"s_waitcnt", "s_wait_"})) return Kind::wait;
  if (word.starts_with("s_barrier")) return Kind::barrier;
  return word.starts_with("v_") ? Kind::vector : Kind::scalar;
}

void add(InstructionCounts& to, Kind kind) {
  ++to.total;
  switch (kind) {
    case Kind::matrix:
      ++to.matrix;
      break;
    case Kind::shared_read:
      ++to.shared_reads;
      break;
    case Kind::shared_write:
      ++to.shared_writes;
      break;
    case Kind::load:
    case Kind::direct_load:
      ++to.memory_loads;
      break;
    case Kind::store:
      ++to.memory_stores;
      break;
    case Kind::barrier:
      ++to.barriers;
      break;
    case Kind::wait:
      ++to.waits;
      break;
    case Kind::spill:
      ++to.spills;
      break;
    case Kind::vector:
      ++to.vector;
      break;
    case Kind::scalar:
      ++to.scalar;
      break;
  }
}

/// The label that a branch goes to, or nothing.
std::string_view branch_target(std::string_view line) {
  if (!starts_with_any(line, {"s_branch", "s_cbranch"})) return {};
  const auto gap = line.find_last_of(" \t");
  return gap == line.npos ? std::string_view{} : line.substr(gap + 1);
}

/// The number in `name(number)`, if the line has it.
std::optional<int> count_in(std::string_view line, std::string_view name) {
  const auto at = line.find(name);
  if (at == line.npos) return std::nullopt;
  int count = 0;
  const char* begin = line.data() + at + name.size();
  const auto read = std::from_chars(begin, line.data() + line.size(), count);
  return read.ec == std::errc{} ? std::optional(count) : std::nullopt;
}

/// Follows a loop as a wave executes it, and records which accesses in flight each wait finds.
class Walk {
 public:
  void meet(std::string_view line) {
    const Kind kind = kind_of(line);
    matrix_ += kind == Kind::matrix;
    barriers_ += kind == Kind::barrier;
    switch (kind) {
      case Kind::load:
      case Kind::direct_load:
      case Kind::store:
        memory_.push_back({matrix_, barriers_});
        break;
      case Kind::shared_read:
      case Kind::shared_write:
        shared_.push_back({matrix_, barriers_});
        break;
      case Kind::wait:
        if (const auto left = count_in(line, "vmcnt(")) wait(Wait::For::memory, memory_, *left);
        if (const auto left = count_in(line, "lgkmcnt(")) wait(Wait::For::shared, shared_, *left);
        return;
      case Kind::spill:
      case Kind::vector:
      case Kind::scalar:
        return;
      case Kind::matrix:
      case Kind::barrier:
        break;
    }
    order += static_cast<char>(kind);
  }

  std::vector<Wait> waits;
  std::string order;

 private:
  struct Access {
    int matrix, barriers;  // that were met before it
  };

  void wait(Wait::For kind, std::deque<Access>& on_their_way, int left) {
    const int accesses = static_cast<int>(on_their_way.size()) - left;
    if (accesses <= 0) return;
    const Access youngest = on_their_way[static_cast<std::size_t>(accesses) - 1];
    on_their_way.erase(on_their_way.begin(), on_their_way.begin() + accesses);
    waits.push_back(
        {kind, left, accesses, matrix_ - youngest.matrix, barriers_ - youngest.barriers});
    order += kind == Wait::For::memory ? 'm' : 's';
  }

  int matrix_ = 0, barriers_ = 0;
  std::deque<Access> memory_, shared_;
};

using Labels = std::map<std::string_view, std::size_t>;

/// The second iteration of a loop: only there do waits find the first one's accesses in flight.
Walk walked(const std::vector<std::string_view>& lines, std::size_t first, std::size_t last,
            const Labels& labels) {
  Walk walk;
  for (int turn = 0; turn < 2; ++turn) {
    walk.waits.clear();
    walk.order.clear();
    for (std::size_t i = first; i <= last; ++i) {
      if (lines[i].ends_with(':')) continue;
      walk.meet(lines[i]);
      if (!lines[i].starts_with("s_branch")) continue;
      const auto target = labels.find(branch_target(lines[i]));
      if (target != labels.end() && target->second > i) i = target->second;
    }
  }
  return walk;
}

}  // namespace

std::vector<LoopCounts> count_loops(std::string_view assembly) {
  const auto lines = code_lines(assembly);
  Labels labels;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].ends_with(':')) labels[lines[i].substr(0, lines[i].size() - 1)] = i;
  std::map<std::size_t, std::size_t> loops;  // first line to last
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto target = labels.find(branch_target(lines[i]));
    if (target != labels.end() && target->second <= i)
      loops[target->second] = std::max(loops[target->second], i);
  }
  std::vector<LoopCounts> out;
  for (const auto& [first, last] : loops) {
    LoopCounts loop{std::string(lines[first].substr(0, lines[first].size() - 1)), {}};
    for (std::size_t i = first; i <= last; ++i)
      if (!lines[i].ends_with(':')) add(loop.counts, kind_of(lines[i]));
    Walk walk = walked(lines, first, last, labels);
    loop.waits = std::move(walk.waits);
    loop.order = std::move(walk.order);
    out.push_back(std::move(loop));
  }
  return out;
}

const LoopCounts* main_loop(const std::vector<LoopCounts>& loops) {
  const LoopCounts* best = nullptr;
  const auto share = [](const LoopCounts& loop) {
    return double(loop.counts.matrix) / std::max(1, loop.counts.total);
  };
  for (const LoopCounts& loop : loops)
    if (loop.counts.matrix > 0 && (best == nullptr || share(loop) > share(*best))) best = &loop;
  return best;
}

}  // namespace kiln::hip
