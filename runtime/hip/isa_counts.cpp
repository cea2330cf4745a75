#include "runtime/hip/isa_counts.h"

#include <algorithm>
#include <map>

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

void add(InstructionCounts& to, std::string_view line) {
  if (line.ends_with(':')) return;
  const auto word = line.substr(0, line.find_first_of(" \t"));
  ++to.total;
  if (starts_with_any(word, {"v_mfma", "v_smfmac", "v_wmma"}))
    ++to.matrix;
  else if (word.starts_with("ds_"))
    ++(word.find("read") != word.npos || word.find("load") != word.npos ? to.shared_reads
                                                                        : to.shared_writes);
  else if (word.starts_with("scratch_"))
    ++to.spills;
  else if (starts_with_any(word, {"buffer_", "global_", "flat_"}))
    ++(word.find("load") != word.npos ? to.memory_loads : to.memory_stores);
  else if (word.starts_with("s_waitcnt") || word.starts_with("s_wait_"))
    ++to.waits;
  else if (word.starts_with("s_barrier"))
    ++to.barriers;
  else
    ++(word.starts_with("v_") ? to.vector : to.scalar);
}

/// The label that a branch goes to, or nothing.
std::string_view branch_target(std::string_view line) {
  if (!starts_with_any(line, {"s_branch", "s_cbranch"})) return {};
  const auto gap = line.find_last_of(" \t");
  return gap == line.npos ? std::string_view{} : line.substr(gap + 1);
}

}  // namespace

std::vector<LoopCounts> count_loops(std::string_view assembly) {
  const auto lines = code_lines(assembly);
  std::map<std::string_view, std::size_t> labels;
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
    for (std::size_t i = first; i <= last; ++i) add(loop.counts, lines[i]);
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
