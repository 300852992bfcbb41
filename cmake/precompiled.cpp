// The source that cmake/precompiled.hpp is parsed for.
