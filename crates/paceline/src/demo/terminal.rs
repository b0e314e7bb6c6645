//! The terminal that frames are drawn on: its alternate screen, restored at the end.

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::mpsc::Sender;

/// Rows if the terminal does not report them.
const ROWS_DEFAULT: usize = 24;

/// Enter the alternate screen and hide the cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal in use.
pub struct Terminal {
    /// The previous state of the keyboard, if it is a terminal.
    keyboard: Option<Termios>,
}

impl Terminal {
    /// Takes over the terminal, if standard output is one; `was` receives the state of the keyboard before it
    /// is changed.
    pub fn take(was: impl FnOnce(Termios)) -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if !io::stdout().is_terminal() || is_dumb {
            return None;
        }
        let keyboard = tcgetattr(io::stdin()).ok();
        if let Some(mut modes) = keyboard.clone() {
            was(modes.clone());
            // Keys are read one by one and not echoed; Ctrl-C is still a signal.
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
        let terminal = Self { keyboard };
        write(ENTER).is_ok().then_some(terminal)
    }

    /// Rows of the screen.
    pub fn rows() -> usize {
        let size = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_row));
        size.filter(|rows| *rows > 0).unwrap_or(ROWS_DEFAULT)
    }

    /// Draws a frame over the last one.
    pub fn draw(lines: &[String]) -> io::Result<()> {
        let mut frame = String::from("\x1b[H");
        for (place, line) in lines.iter().enumerate() {
            frame.push_str(if place > 0 { "\r\n" } else { "" });
            frame.push_str(line);
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        write(&frame)
    }

    /// Sends a message whenever `q` is pressed, for as long as the process lives.
    pub fn listen<T: Send + 'static>(quit: Sender<T>, told: impl Fn() -> T + Send + 'static) {
        let read = move || {
            for byte in io::stdin().lock().bytes().map_while(Result::ok) {
                if matches!(byte, b'q' | b'Q') && quit.send(told()).is_err() {
                    return;
                }
            }
        };
        // Without it there is still Ctrl-C.
        let _ = std::thread::Builder::new().name("keys".into()).spawn(read);
    }
}

/// Resumes output that was stopped by Ctrl-S: the system does so when that key loses its meaning.
pub fn resume(keyboard: &Termios) {
    let Ok(mut modes) = tcgetattr(io::stdin()) else { return };
    modes.input_modes.remove(InputModes::IXON);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    modes.input_modes = keyboard.input_modes;
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
}

/// Restores the terminal while another thread may be stuck writing to it, and so holds the lock.
pub fn put_back(keyboard: &Termios) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, keyboard);
    let _ = rustix::io::write(io::stdout(), LEAVE.as_bytes());
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        if let Some(modes) = &self.keyboard {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
