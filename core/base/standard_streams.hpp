// Standard input, output and error as a process finds them: closed, full, or without a reader.
#pragma once

#include <cstdio>
#include <string_view>

namespace plumbline {

/// For the first line of main. Opens /dev/null for each of descriptors 0, 1 and 2 that is closed. Otherwise a
/// file opened later would get the number, and the output for the terminal with it. From then on a failing
/// write returns an error instead of ending the process. It fails on a pipe that nobody reads (SIGPIPE), or
/// beyond the largest allowed file size (SIGXFSZ).
void prepare_standard_streams();

/// Writes progress, a note or the reason of an end, and empties the buffer. Throws nothing: unreadable text
/// is dropped.
void say(std::string_view text, std::FILE* out = stderr) noexcept;

/// For the end of main. Throws Error when output printed to standard output is lost: the disk is full, the
/// terminal is gone. A pipe whose reader has left is no error. `known_error` is the errno of an earlier
/// attempt to print, 0 when there is none.
void finish_standard_output(int known_error = 0);

}  // namespace plumbline
