// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Reasons that are not the server's. They are constant texts: kube-scheduler patches a pod's condition only
// when its message changes.
const (
	reasonUnjudged     = "not judged by muster-server yet"
	reasonDisconnected = "muster-server is not connected"
	reasonUnexplained  = "muster-server gave no reason"
)

// maxText bounds a text that goes into a pod's condition, and one that goes to the server.
const maxText = 1024

// clean bounds a text of the server and makes it one line. The copy does not keep the frame it came in alive.
func clean(text string) string {
	text = truncate(text, maxText)
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if text = strings.TrimSpace(text); text == "" {
		return reasonUnexplained
	}
	return strings.Clone(text)
}

// truncate cuts at the end of a character.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func reasonTimeout(point string, timeout time.Duration) string {
	return "muster-server did not answer " + point + " within " + timeout.String()
}
