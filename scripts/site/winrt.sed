1 i /** @addtogroup winrt The Windows Runtime's error API\n * @{ */
$ a /** @} */
