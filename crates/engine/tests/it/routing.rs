//! The commands of scripts about frontends, backends and servers.

use crate::commands::{Answer, number, pairs, span};
use crate::world::World;
use paceline_checkpoints::At;
use paceline_engine::Rerouted;
use paceline_routing::{Backend, Frontend, Server, UseBackend};
use paceline_types::{BackendId, ServerId};

impl World {
    pub fn route(&mut self, command: &str, first: &str, rest: &[&str]) -> Answer {
        match command {
            "frontend" => self.frontend(first, rest),
            "backend" => self.backend(first, rest),
            "delete-frontend" => {
                self.frontends.retain(|frontend| *frontend.name != *first);
                self.configure()
            }
            "delete-backend" => {
                self.backends.retain(|backend| *backend.name != *first);
                self.configure()
            }
            "up" | "down" => {
                let server = self.server(first)?;
                self.engine.set_up(self.now, server, command == "up");
                Ok(vec![])
            }
            "reroute" => {
                let id = self.id(first)?;
                let snapshot = self.engine.snapshot();
                Ok(vec![match self.engine.reroute(self.now, id) {
                    Rerouted::Server(server) => {
                        snapshot.routing().server_name(server).unwrap_or_default().into()
                    }
                    Rerouted::Back => "back".into(),
                    Rerouted::Nowhere => "none".into(),
                }])
            }
            "rename-server" => self.rename_server(first, rest.first().ok_or("a new name")?),
            "rename-backend" => {
                let new = rest.first().ok_or("a new name")?;
                for backend in self.backends.iter_mut().filter(|one| *one.name == *first) {
                    backend.name = (*new).into();
                }
                for frontend in &mut self.frontends {
                    let lines = frontend.use_backend.iter_mut().map(|line| &mut line.backend);
                    let names = lines.chain(&mut frontend.backend);
                    names.filter(|name| ***name == *first).for_each(|name| *name = (*new).into());
                }
                self.configure()
            }
            "rename-frontends" => self.rename_frontends(first),
            "slept" => self.slept(first),
            "site" => self.site(first),
            _ => Ok(self.servers()),
        }
    }

    /// The address that a request was given.
    fn site(&self, name: &str) -> Answer {
        let site = self.engine.grant(self.id(name)?).and_then(|grant| grant.site);
        Ok(vec![site.map_or_else(|| "none".into(), |site| site.address.to_string())])
    }

    /// `OLD:NEW,...`: renames these frontends and all references to them, in one edit.
    fn rename_frontends(&mut self, renames: &str) -> Answer {
        let renames: Vec<_> = renames.split(',').filter_map(|pair| pair.split_once(':')).collect();
        let new = |name: &mut Box<str>| {
            if let Some((_, new)) = renames.iter().find(|(old, _)| **name == **old) {
                *name = (*new).into();
            }
        };
        self.frontends.iter_mut().for_each(|frontend| new(&mut frontend.name));
        for spec in &mut self.checkpoints {
            if let At::Frontend(name) = &mut spec.at {
                new(name);
            }
        }
        self.configure()
    }

    fn frontend(&mut self, name: &str, rest: &[&str]) -> Answer {
        let mut address = format!("unix:/run/{name}");
        let mut frontend = Frontend::new(name, vec![]);
        for (key, value) in pairs(rest)? {
            match key {
                "backend" => frontend.backend = Some(value.into()),
                "use" => {
                    let (when, backend) = value.split_once(" => ").ok_or("use=WHEN => BACKEND")?;
                    frontend
                        .use_backend
                        .push(UseBackend { when: when.into(), backend: backend.into() });
                }
                "log" => frontend.log_values.push(("value".into(), value.into())),
                "listen" => address = value.into(),
                _ => return Err(format!("frontend: no setting {key}")),
            }
        }
        frontend.listen = vec![address.parse().map_err(|error| format!("{address}: {error}"))?];
        self.frontends.retain(|other| *other.name != *name);
        self.frontends.push(frontend);
        self.configure()
    }

    fn backend(&mut self, name: &str, rest: &[&str]) -> Answer {
        let old = self.backends.iter().position(|backend| *backend.name == *name);
        let (id, servers) = match old {
            Some(index) => {
                let old = self.backends.remove(index);
                (old.id, old.servers)
            }
            None => {
                self.next_backend += 1;
                (BackendId(self.next_backend), vec![])
            }
        };
        let mut backend = Backend::new(id, name);
        for (key, value) in pairs(rest)? {
            match key {
                "balance" => backend.balance = value.parse().map_err(|_| "no such balance")?,
                "len" => backend.queue_len_max = Some(number(value)?),
                "retries" => backend.retries = number(value)?,
                "delay" => backend.queue_delay_max = Some(span(value)?),
                "server" => {
                    let server = self.server_spec(value, &servers)?;
                    backend.servers.push(server);
                }
                _ => return Err(format!("backend: no setting {key}")),
            }
        }
        self.backends.push(backend);
        self.configure()
    }

    /// A server as `NAME[,max:N][,weight:N][,at:NAME]`; one of the same name keeps its number.
    fn server_spec(&mut self, text: &str, old: &[Server]) -> Result<Server, String> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let id = match old.iter().find(|server| *server.name == *name) {
            Some(server) => server.id,
            None => {
                self.next_server += 1;
                ServerId(self.next_server)
            }
        };
        let address = format!("unix:/run/{name}").parse().unwrap();
        let mut server = Server::new(id, name, address);
        for part in parts {
            match part.split_once(':') {
                Some(("max", max)) => server.connections_max = Some(number(max)?),
                Some(("weight", weight)) => server.weight = number(weight)?,
                Some(("at", at)) => server.address = format!("unix:/run/{at}").parse().unwrap(),
                _ => return Err(format!("server: no setting {part}")),
            }
        }
        Ok(server)
    }

    fn server(&self, name: &str) -> Result<ServerId, String> {
        let (backend, name) = name.split_once('/').ok_or("a server is BACKEND/NAME")?;
        let backend = self.backends.iter().find(|one| *one.name == *backend);
        let server = backend.and_then(|one| one.servers.iter().find(|s| *s.name == *name));
        server.map(|server| server.id).ok_or_else(|| format!("the script has no server {name}"))
    }

    fn rename_server(&mut self, name: &str, new: &str) -> Answer {
        let id = self.server(name)?;
        let servers = self.backends.iter_mut().flat_map(|backend| &mut backend.servers);
        for server in servers.filter(|server| server.id == id) {
            server.name = new.into();
        }
        self.configure()
    }

    fn slept(&self, name: &str) -> Answer {
        let id = self.id(name)?;
        let snapshot = self.engine.snapshot();
        let name = |id| snapshot.checkpoints().checkpoint(id).map(|one| one.spec.name.clone());
        let slept = self.engine.slept(id).iter();
        let mut lines: Vec<String> =
            slept.map(|(id, span)| format!("{} {span}", name(*id).unwrap_or_default())).collect();
        let lined = self.engine.lined(id);
        if lined.0 > 0 {
            lines.push(format!("in line {lined}"));
        }
        Ok(lines)
    }

    fn servers(&self) -> Vec<String> {
        let snapshot = self.engine.snapshot();
        let servers = self.engine.fleet().servers();
        servers
            .map(|(id, figures)| {
                let name = snapshot.routing().server_name(id).unwrap_or_default();
                let up = if figures.up { "up" } else { "down" };
                format!("{name} {up}, {} held", figures.held)
            })
            .collect()
    }
}
