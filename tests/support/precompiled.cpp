// The source that tests/support/precompiled.hpp is parsed for.
