/* build libplugin.so: gcc -O2 -g -shared -fPIC */
/* plugin - a library that is loaded late; its constructor touches the variable, before dlopen returns. */
volatile int plugin_state;

__attribute__((constructor)) static void plugin_start(void)
{
	plugin_state = 100;
}

void plugin_touch(int i);
void plugin_touch(int i)
{
	plugin_state = i;
}
