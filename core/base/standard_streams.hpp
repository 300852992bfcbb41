// Standard input, output and error as a process finds them: closed, full, or with nobody at the other end.
#pragma once

#include <cstdio>
#include <string_view>

namespace plumbline {

/// For the first line of main. Opens /dev/null for each of descriptors 0, 1 and 2 that is closed: a file that
/// is opened later would get the number, and what is meant for the terminal with it. From then on a write
/// that cannot be done fails with an error instead of ending the process: to a pipe that nobody reads
/// (SIGPIPE), or beyond the largest file that is allowed (SIGXFSZ).
void prepare_standard_streams();

/// Writes progress, a note or the reason of an end, and empties the buffer. Throws nothing: what nobody can
/// read is dropped.
void say(std::string_view text, std::FILE* out = stderr) noexcept;

/// For the end of main. Throws Error when something that was printed to standard output is not there: the
/// disk is full, the terminal has gone. A pipe whose reader has left is no error: it has read what it wanted.
/// `known_error` is the errno of an earlier attempt to print, 0 when there is none.
void finish_standard_output(int known_error = 0);

}  // namespace plumbline
