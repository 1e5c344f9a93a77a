// The other file: the same names for other things. It comes first in the debug information.
namespace
{
struct Secret {
	char pad[40];
	int code;
};
struct Later {
	char a[3], y;
};
Secret table[3];
Later *later2 = new Later;
} // namespace
struct Other {
	struct Impl {
		char pad[64];
		int secret;
	} impl;
} other;

void *use_them()
{
	return &table[later2->y].code + other.impl.secret;
}
