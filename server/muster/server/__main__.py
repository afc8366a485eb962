# SPDX-License-Identifier: Apache-2.0
from muster.server.main import main

main()
