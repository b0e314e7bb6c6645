//! Roles that are given and taken away, and the records of refusals.

use super::{Access, Granted, REFUSED};
use crate::audit::Audit;
use crate::clock::{Clock, wall_ms};
use crate::session::{Memory, Session};
use paceline_locks::SessionId;
use paceline_model::{Grant, SqlVerifier, TokenRow};
use paceline_types::Role;
use std::sync::Arc;

fn token(name: &str, first: u8, expires_ms: Option<u64>) -> Grant {
    let (name, user) = (name.to_owned(), format!("{name}'s"));
    Grant::Token(TokenRow { name, hash: [first; 32], role: Role::Client, user, expires_ms })
}

fn role_of(access: &Access, first: u8) -> Option<Role> {
    access.of_token(&[first; 32]).map(|granted| granted.role())
}

#[test]
fn a_token_counts_until_it_is_deleted_or_over() {
    let access = Access::new(Clock::new());
    let now = wall_ms();
    let (old, new) = (token("ci", 1, None), token("next", 2, Some(now + 3_600_000)));
    access.begin(vec![old.clone(), new.clone(), token("past", 3, Some(now - 1))]);
    assert_eq!([1, 2, 3, 4].map(|n| role_of(&access, n).is_some()), [true, true, false, false]);
    let held = access.of_token(&[1; 32]).unwrap();
    assert_eq!((held.user.as_str(), held.is_over()), ("ci's", false));
    let mut close = [1; 32];
    close[31] = 0;
    assert!(access.of_token(&close).is_none(), "the second half counts too");

    access.change(vec![(Some(old), None), (Some(new), Some(token("next", 5, None)))]);
    assert!(held.is_over(), "whoever holds it can see that it is revoked");
    assert_eq!([1, 2, 5].map(|n| role_of(&access, n).is_some()), [false, false, true]);
}

#[test]
fn whoever_waits_for_the_end_of_a_token_hears_of_it() {
    let access = Access::new(Clock::new());
    access.begin(vec![token("ci", 1, None)]);
    let held = access.of_token(&[1; 32]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waiting = runtime.spawn(async move { held.revoked().await });
    access.change(vec![(Some(token("ci", 1, None)), None)]);
    runtime.block_on(waiting).unwrap();
}

/// A user keeps what it holds when its role changes, as long as the new role may hold it.
#[test]
fn another_role_counts_at_once_and_ends_nothing_that_it_may_hold() {
    let access = Access::new(Clock::new());
    let user = |role| Grant::User { name: "eva".into(), role: Some(role), verifier: None };
    let uid = access.own_user.0 + 4_000;
    access.begin(vec![user(Role::Client)]);
    let held = access.of_user(uid, "eva").1.unwrap();
    for (from, to) in
        [(Role::Client, Role::Client), (Role::Client, Role::Admin), (Role::Admin, Role::Client)]
    {
        access.change(vec![(Some(user(from)), Some(user(to)))]);
        assert!(!held.is_over(), "{from} to {to}");
        assert_eq!((held.role(), access.of_user(uid, "eva").0), (to, Some(to)));
    }
    access.change(vec![(Some(user(Role::Client)), Some(user(Role::Viewer)))]);
    assert!(held.is_over(), "a viewer may hold nothing");
    let looks = access.of_user(uid, "eva").1.unwrap();
    access.change(vec![(Some(user(Role::Viewer)), Some(user(Role::Client)))]);
    assert_eq!((looks.is_over(), looks.role()), (false, Role::Client));
    // A token that differs in more than its role is another token.
    access.begin(vec![token("ci", 1, None)]);
    let held = access.of_token(&[1; 32]).unwrap();
    let other = token("ci", 1, Some(wall_ms() + 3_600_000));
    access.change(vec![(Some(token("ci", 1, None)), Some(other))]);
    assert!(held.is_over());
}

#[test]
fn the_first_token_is_replaced_by_the_next() {
    let access = Access::new(Clock::new());
    access.set_first_token([7; 32]);
    assert_eq!(role_of(&access, 7), Some(Role::Admin));
    access.set_first_token([8; 32]);
    assert_eq!((role_of(&access, 7), role_of(&access, 8)), (None, Some(Role::Admin)));
}

#[test]
fn a_user_has_the_role_of_its_row_and_root_is_admin() {
    let access = Access::new(Clock::new());
    let (own, other) = (access.own_user.0, access.own_user.0 + 4_000);
    access.begin(vec![Grant::User {
        name: "eva".into(),
        role: Some(Role::Viewer),
        verifier: None,
    }]);
    let role = |uid, name| access.of_user(uid, name).0;
    assert_eq!([role(own, "x"), role(0, "root")], [Some(Role::Admin); 2]);
    assert_eq!([role(other, "eva"), role(other, "max")], [Some(Role::Viewer), None]);
    assert_eq!(access.user_name(0), "root");
}

#[test]
fn a_check_is_the_same_error_for_everyone_and_is_recorded_a1() {
    let path = std::env::temp_dir().join(format!("paceline-access-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let audit = Arc::new(Audit::open(&path).unwrap());
    let access = Access::new(Clock::new());
    access.record_in(&audit);
    for (role, may) in [(None, 0), (Some(Role::Viewer), 1), (Some(Role::Client), 2)]
        .into_iter()
        .chain([(Some(Role::Operator), 3), (Some(Role::Admin), 4)])
    {
        let session = Session::new(
            SessionId(1),
            format!("{role:?}"),
            (role, false),
            (None, &Memory::default()),
        );
        let passed = Role::ALL.iter().filter(|need| {
            match access.check(&session, **need, || "steal".into()) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!((error.tag, &*error.details), ("permission error", REFUSED));
                    false
                }
            }
        });
        assert_eq!(passed.count(), may, "{role:?}");
    }
    for number in 0..1_000 {
        access.refused("eva", &format!("{number} {}", "x".repeat(1_000)));
    }
    access.close();
    audit.close();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text.lines().count(), 101, "a hundred, and how many were left out");
    let first = text.lines().next().unwrap();
    assert!(
        first.contains(r#""who":"None","what":"refused permission","object":"steal""#),
        "{first}"
    );
    let last = text.lines().last().unwrap();
    assert!(last.contains(r#""left_out":910"#), "{last}");
    assert!(text.lines().all(|line| line.len() < 400));
}

/// A waiting client is notified that its token has expired.
#[test]
fn the_expiry_of_a_token_is_waited_for() {
    let access = Access::new(Clock::new());
    access.begin(vec![token("ci", 1, Some(wall_ms() + 50))]);
    let granted = access.of_token(&[1; 32]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // A client whose work never ends is not waited for.
    let never = tokio::time::Duration::from_secs(30);
    let none = runtime.block_on(Granted::during(Some(&granted), async {
        tokio::time::sleep(never).await;
    }));
    assert!(none.is_none(), "it waits on with a token that has expired");
    assert!(granted.is_over());
}

/// The SQL door sees the verifier and the role of the row, as of the last change.
#[test]
fn sql_users_have_what_their_row_says() {
    let access = Access::new(Clock::new());
    let verifier = |salt: &str| {
        let key = format!("{}=", "A".repeat(43));
        SqlVerifier::parse(&format!(
            "SCRAM-SHA-256$4096:{salt}$\
                                     {key}:{key}"
        ))
        .unwrap()
    };
    let (first, second) =
        (verifier("AAAAAAAAAAAAAAAAAAAAAA=="), verifier("BBBBBBBBBBBBBBBBBBBBBA=="));
    let user = |role, verifier| Grant::User { name: "app".into(), role, verifier };
    let seen = |access: &Access| access.sql_user("app").map(|user| (user.role, user.verifier));
    assert_eq!(seen(&access), None);
    access.begin(vec![user(None, Some(first.clone()))]);
    assert_eq!(seen(&access), Some((None, Some(first.clone()))));
    assert_eq!(
        access.of_user(access.own_user.0 + 4_000, "app").0,
        None,
        "it has no role elsewhere"
    );
    // Each change, from what the row was.
    let steps = [
        (None, Some(second.clone())),
        (Some(Role::Client), Some(second.clone())),
        (Some(Role::Operator), Some(first)),
        (Some(Role::Operator), None),
        (None, None),
    ];
    let mut old = user(None, None);
    for (role, verifier) in steps {
        let new = user(role, verifier.clone());
        access.change(vec![(Some(old), Some(new.clone()))]);
        assert_eq!(seen(&access), Some((role, verifier)));
        old = new;
    }
    access.change(vec![(Some(old), None)]);
    assert_eq!(seen(&access), None);
}
