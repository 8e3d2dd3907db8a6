#ifdef __cplusplus
extern "C"
#endif
int lua_discount(lua_State *L);

void open_shop(lua_State *L)
{
    static const luaL_Reg functions[] = {{"rate", lua_rate},
                                         {"protect", lua_protect},
                                         {"discount", lua_discount},
                                         {NULL, NULL}};

    luaL_openlibs(L);
    luaL_newlib(L, functions);
    lua_setglobal(L, "shop");
}

static PyMethodDef methods[] = {{"take", shop_take, METH_VARARGS, NULL},
                                {"lua", shop_lua_call, METH_VARARGS, NULL},
                                {"finish", shop_finish, METH_VARARGS, NULL},
                                {"each", shop_each, METH_O, NULL},
                                {"sell", shop_sell, METH_VARARGS, NULL},
                                {"thread", shop_thread, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "shop", NULL, -1, methods,
                                 NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_shop(void)
{
    return PyModule_Create(&definition);
}
