// Child processes of the long-running tests: bodies under a time limit, and what they left running.
// Knows no database. Call from a process with one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace kiln::soak {

/// How a child ended, as a sentence; "" when its body returned "". What the body returned is the
/// sentence where there is one. The child is killed after `seconds`.
std::string in_child(double seconds, const std::function<std::string()>& body);

/// Adopts the children of children that die, from now on.
void adopt_orphans();
/// Waits for adopted processes to end; those that live on after `seconds` are killed and named.
std::string surviving_orphans(double seconds);

/// A child process of `parent` whose name holds `part`; 0 when there is none.
pid_t child_named(pid_t parent, const std::string& part);

}  // namespace kiln::soak
